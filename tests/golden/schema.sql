CREATE TABLE calibration (
  id            TEXT    NOT NULL PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  profile       TEXT    NOT NULL CHECK (profile <> ''),
  model         TEXT    NOT NULL,
  stack         TEXT    NOT NULL,
  retired_at_ms INTEGER CHECK (retired_at_ms > 0),
  document      TEXT    NOT NULL,
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX calibration_by_profile ON calibration (profile, id);
CREATE TABLE "catalogue_name" (
  kind            TEXT    NOT NULL CHECK (kind <> ''),
  name            TEXT    NOT NULL CHECK (name <> ''),
  newest_revision INTEGER NOT NULL CHECK (newest_revision > 0),
  alias           TEXT    NOT NULL COLLATE NOCASE,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX catalogue_name_by_alias ON catalogue_name (kind, alias) WHERE alias <> '';
CREATE TRIGGER catalogue_revision_is_final BEFORE UPDATE ON catalogue_revision
BEGIN
  SELECT RAISE(ABORT, 'revisions are never rewritten');
END;
CREATE TABLE catalogue_revision (
  kind          TEXT    NOT NULL,
  name          TEXT    NOT NULL,
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  is_builtin    INTEGER NOT NULL CHECK (is_builtin IN (0, 1)),
  alias         TEXT    NOT NULL,
  digest        TEXT    NOT NULL,
  source        TEXT    NOT NULL,
  document      TEXT    NOT NULL,
  PRIMARY KEY (kind, name, revision),
  FOREIGN KEY (kind, name) REFERENCES catalogue_name (kind, name)
) STRICT;
CREATE TRIGGER decision_is_final BEFORE UPDATE ON decision
BEGIN
  SELECT RAISE(ABORT, 'decisions are never rewritten');
END;
CREATE TABLE decision (
  id              TEXT    NOT NULL PRIMARY KEY,
  created_at_ms   INTEGER NOT NULL,
  effective_at_ms INTEGER NOT NULL,
  workload        TEXT    NOT NULL CHECK (workload <> ''),
  knob            TEXT    NOT NULL CHECK (knob <> ''),
  supersedes      TEXT    REFERENCES decision (id),
  is_revert       INTEGER NOT NULL CHECK (is_revert IN (0, 1)),
  review_by_ms    INTEGER,
  document        TEXT    NOT NULL,
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms)),
  CHECK (is_revert = 0 OR supersedes IS NOT NULL)
) STRICT;
CREATE INDEX decision_by_knob ON decision (workload, knob, effective_at_ms, id);
CREATE INDEX decision_by_superseded ON decision (supersedes, effective_at_ms, id) WHERE supersedes IS NOT NULL;
CREATE TABLE engine_sample (
  node     TEXT    NOT NULL REFERENCES node (name) ON DELETE CASCADE,
  step_s   INTEGER NOT NULL CHECK (step_s > 0),
  time_ms  INTEGER NOT NULL CHECK (time_ms >= 0),
  document TEXT    NOT NULL,
  PRIMARY KEY (node, step_s, time_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX engine_sample_by_time ON engine_sample (step_s, time_ms);
CREATE TABLE evaluation (
  id            TEXT    NOT NULL PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  workload      TEXT    NOT NULL CHECK (workload <> ''),
  model         TEXT    NOT NULL CHECK (model <> ''),
  label         TEXT    NOT NULL,
  core_version  TEXT    NOT NULL,
  sketch_digest TEXT    NOT NULL,
  sketch        TEXT    NOT NULL,
  document      TEXT    NOT NULL, official_revision INTEGER NOT NULL DEFAULT 0 CHECK (official_revision >= 0),
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX evaluation_by_label    ON evaluation (label, id) WHERE label <> '';
CREATE INDEX evaluation_by_model    ON evaluation (model, id);
CREATE INDEX evaluation_by_workload ON evaluation (workload, id);
CREATE INDEX evaluation_official ON evaluation (workload, id) WHERE official_revision > 0;
CREATE TABLE gate (
  id            INTEGER PRIMARY KEY,
  name          TEXT    NOT NULL UNIQUE CHECK (name <> ''),
  workload      TEXT    NOT NULL CHECK (workload <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL
) STRICT;
CREATE INDEX gate_by_workload ON gate (workload);
CREATE TABLE gate_baseline (
  gate      INTEGER NOT NULL REFERENCES gate (id) ON DELETE CASCADE,
  profile   TEXT    NOT NULL CHECK (profile <> ''),
  scorecard TEXT    NOT NULL REFERENCES scorecard (id),
  set_at_ms INTEGER NOT NULL,
  is_chosen INTEGER NOT NULL CHECK (is_chosen IN (0, 1)),
  PRIMARY KEY (gate, profile)
) STRICT, WITHOUT ROWID;
CREATE INDEX gate_baseline_by_scorecard ON gate_baseline (scorecard);
CREATE TABLE gate_check (
  id            TEXT    NOT NULL PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  gate          TEXT    NOT NULL CHECK (gate <> ''),
  workload      TEXT    NOT NULL CHECK (workload <> ''),
  verdict       TEXT    NOT NULL CHECK (verdict IN ('pass', 'fail', 'inconclusive', 'no_target')),
  document      TEXT    NOT NULL,
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX gate_check_by_gate ON gate_check (gate, id);
CREATE INDEX gate_check_by_workload ON gate_check (workload, id);
CREATE TABLE gate_waiver (
  id            TEXT    NOT NULL PRIMARY KEY,
  gate          INTEGER NOT NULL REFERENCES gate (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL
) STRICT;
CREATE INDEX gate_waiver_by_gate ON gate_waiver (gate, expires_at_ms);
CREATE TABLE gpu_sample (
  node    TEXT    NOT NULL REFERENCES node (name) ON DELETE CASCADE,
  gpu     TEXT    NOT NULL CHECK (gpu <> ''),
  step_s  INTEGER NOT NULL CHECK (step_s > 0),
  time_ms INTEGER NOT NULL CHECK (time_ms >= 0),
  figures BLOB    NOT NULL,
  PRIMARY KEY (node, gpu, step_s, time_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX gpu_sample_by_time ON gpu_sample (step_s, time_ms);
CREATE TABLE idempotency_key (
  key            TEXT    NOT NULL CHECK (key <> ''),
  caller         TEXT    NOT NULL,
  request_digest TEXT    NOT NULL,
  created_at_ms  INTEGER NOT NULL,
  status         INTEGER NOT NULL CHECK (status = 0 OR status BETWEEN 100 AND 599),
  content_type   TEXT    NOT NULL,
  headers        TEXT    NOT NULL,
  body           TEXT    NOT NULL,
  PRIMARY KEY (key, caller)
) STRICT;
CREATE INDEX idempotency_key_by_age ON idempotency_key (created_at_ms);
CREATE TABLE knob (
  id            INTEGER PRIMARY KEY,
  workload      TEXT    NOT NULL CHECK (workload <> ''),
  name          TEXT    NOT NULL CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL,
  UNIQUE (workload, name)
) STRICT;
CREATE TRIGGER measurement_is_final BEFORE UPDATE ON measurement
BEGIN
  SELECT RAISE(ABORT, 'measurements are never rewritten');
END;
CREATE TABLE measurement (
  id               TEXT    NOT NULL PRIMARY KEY,
  created_at_ms    INTEGER NOT NULL,
  workload         TEXT    NOT NULL CHECK (workload <> ''),
  model            TEXT    NOT NULL CHECK (model <> ''),
  profile          TEXT    NOT NULL CHECK (profile <> ''),
  stack            TEXT    NOT NULL,
  scorecard        TEXT    NOT NULL REFERENCES scorecard (id),
  document         TEXT    NOT NULL,
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX measurement_by_profile ON measurement (profile, model, id);
CREATE INDEX measurement_by_series  ON measurement (workload, profile, id);
CREATE TABLE measurement_figure (
  measurement TEXT NOT NULL REFERENCES measurement (id),
  path        TEXT NOT NULL CHECK (path <> ''),
  measured    REAL NOT NULL CHECK (measured BETWEEN 0 AND 1e300),
  predicted   REAL CHECK (predicted BETWEEN 0 AND 1e300),
  PRIMARY KEY (measurement, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE node (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  document      TEXT    NOT NULL,
  secrets       TEXT    NOT NULL
) STRICT;
CREATE TRIGGER quality_result_is_final BEFORE UPDATE ON quality_result
BEGIN
  SELECT RAISE(ABORT, 'quality results are never rewritten');
END;
CREATE TABLE quality_result (
  id            TEXT    NOT NULL PRIMARY KEY,
  created_at_ms INTEGER NOT NULL,
  model         TEXT    NOT NULL CHECK (model <> ''),
  weights       TEXT    NOT NULL CHECK (weights <> ''),
  kv_cache      TEXT    NOT NULL,
  stack         TEXT    NOT NULL,
  benchmark     TEXT    NOT NULL CHECK (benchmark <> ''),
  slice         TEXT    NOT NULL,
  score         REAL    NOT NULL CHECK (score BETWEEN -1e300 AND 1e300),
  document      TEXT    NOT NULL,
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX quality_result_by_benchmark ON quality_result (model, benchmark, slice, id);
CREATE TRIGGER review_is_final BEFORE UPDATE ON review WHEN OLD.signed_at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'signed reviews are never rewritten');
END;
CREATE TABLE review (
  week          TEXT    NOT NULL PRIMARY KEY CHECK (week GLOB '[0-9][0-9][0-9][0-9]-W[0-5][0-9]'),
  version       INTEGER NOT NULL CHECK (version > 0),
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  signed_at_ms  INTEGER,
  document      TEXT    NOT NULL
) STRICT;
CREATE INDEX review_signed ON review (week) WHERE signed_at_ms IS NOT NULL;
CREATE TRIGGER review_addendum_is_final BEFORE UPDATE ON review_addendum
BEGIN
  SELECT RAISE(ABORT, 'addenda are never rewritten');
END;
CREATE TABLE review_addendum (
  id            TEXT    NOT NULL PRIMARY KEY,
  week          TEXT    NOT NULL REFERENCES review (week),
  created_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL
) STRICT;
CREATE INDEX review_addendum_by_week ON review_addendum (week, id);
CREATE TABLE schema_migration (
  version       INTEGER PRIMARY KEY CHECK (version > 0),
  name          TEXT    NOT NULL CHECK (name <> ''),
  sha256        TEXT    NOT NULL CHECK (length(sha256) = 64),
  applied_at_ms INTEGER NOT NULL CHECK (applied_at_ms > 0)
) STRICT;
CREATE TRIGGER scorecard_has_series AFTER INSERT ON scorecard
BEGIN
  INSERT INTO scorecard_series (workload, profile) VALUES (NEW.workload, NEW.profile) ON CONFLICT DO NOTHING;
  INSERT INTO scorecard_day VALUES (NEW.workload, NEW.profile, NEW.created_at_ms / 86400000,
    NEW.gpus IS NOT NULL, NEW.gpus, NEW.gpus, NEW.gpus,
    NEW.per_successful_request_usd IS NOT NULL, NEW.per_successful_request_usd, NEW.per_successful_request_usd, NEW.per_successful_request_usd,
    NEW.monthly_usd IS NOT NULL, NEW.monthly_usd, NEW.monthly_usd, NEW.monthly_usd,
    NEW.ttft_ms_p50 IS NOT NULL, NEW.ttft_ms_p50, NEW.ttft_ms_p50, NEW.ttft_ms_p50,
    NEW.itl_ms_p50 IS NOT NULL, NEW.itl_ms_p50, NEW.itl_ms_p50, NEW.itl_ms_p50,
    NEW.e2e_ms_p50 IS NOT NULL, NEW.e2e_ms_p50, NEW.e2e_ms_p50, NEW.e2e_ms_p50,
    NEW.output_tokens_per_s IS NOT NULL, NEW.output_tokens_per_s, NEW.output_tokens_per_s, NEW.output_tokens_per_s,
    NEW.per_million_output_tokens_usd IS NOT NULL, NEW.per_million_output_tokens_usd, NEW.per_million_output_tokens_usd, NEW.per_million_output_tokens_usd,
    NEW.ttft_ms_p90 IS NOT NULL, NEW.ttft_ms_p90, NEW.ttft_ms_p90, NEW.ttft_ms_p90,
    NEW.ttft_ms_p99 IS NOT NULL, NEW.ttft_ms_p99, NEW.ttft_ms_p99, NEW.ttft_ms_p99,
    NEW.itl_ms_p90 IS NOT NULL, NEW.itl_ms_p90, NEW.itl_ms_p90, NEW.itl_ms_p90,
    NEW.itl_ms_p99 IS NOT NULL, NEW.itl_ms_p99, NEW.itl_ms_p99, NEW.itl_ms_p99,
    NEW.tpot_ms_mean IS NOT NULL, NEW.tpot_ms_mean, NEW.tpot_ms_mean, NEW.tpot_ms_mean,
    NEW.e2e_ms_p90 IS NOT NULL, NEW.e2e_ms_p90, NEW.e2e_ms_p90, NEW.e2e_ms_p90,
    NEW.e2e_ms_p99 IS NOT NULL, NEW.e2e_ms_p99, NEW.e2e_ms_p99, NEW.e2e_ms_p99,
    NEW.queue_ms_p99 IS NOT NULL, NEW.queue_ms_p99, NEW.queue_ms_p99, NEW.queue_ms_p99,
    NEW.requests_per_s IS NOT NULL, NEW.requests_per_s, NEW.requests_per_s, NEW.requests_per_s,
    NEW.output_tokens_per_s_per_gpu IS NOT NULL, NEW.output_tokens_per_s_per_gpu, NEW.output_tokens_per_s_per_gpu, NEW.output_tokens_per_s_per_gpu,
    NEW.output_tokens_per_s_per_user IS NOT NULL, NEW.output_tokens_per_s_per_user, NEW.output_tokens_per_s_per_user, NEW.output_tokens_per_s_per_user,
    NEW.mean_batch IS NOT NULL, NEW.mean_batch, NEW.mean_batch, NEW.mean_batch,
    NEW.margin_to_knee IS NOT NULL, NEW.margin_to_knee, NEW.margin_to_knee, NEW.margin_to_knee,
    NEW.saturation_requests_per_s IS NOT NULL, NEW.saturation_requests_per_s, NEW.saturation_requests_per_s, NEW.saturation_requests_per_s,
    NEW.success_rate IS NOT NULL, NEW.success_rate, NEW.success_rate, NEW.success_rate,
    NEW.max_concurrent_sessions IS NOT NULL, NEW.max_concurrent_sessions, NEW.max_concurrent_sessions, NEW.max_concurrent_sessions,
    NEW.headroom IS NOT NULL, NEW.headroom, NEW.headroom, NEW.headroom,
    NEW.watts_per_gpu IS NOT NULL, NEW.watts_per_gpu, NEW.watts_per_gpu, NEW.watts_per_gpu,
    NEW.joules_per_request IS NOT NULL, NEW.joules_per_request, NEW.joules_per_request, NEW.joules_per_request)
  ON CONFLICT (workload, profile, day) DO UPDATE SET
    gpus_count = gpus_count + excluded.gpus_count,
    gpus_sum = coalesce(gpus_sum + excluded.gpus_sum, gpus_sum, excluded.gpus_sum),
    gpus_min = coalesce(min(gpus_min, excluded.gpus_min), gpus_min, excluded.gpus_min),
    gpus_max = coalesce(max(gpus_max, excluded.gpus_max), gpus_max, excluded.gpus_max),
    per_successful_request_usd_count = per_successful_request_usd_count + excluded.per_successful_request_usd_count,
    per_successful_request_usd_sum = coalesce(per_successful_request_usd_sum + excluded.per_successful_request_usd_sum, per_successful_request_usd_sum, excluded.per_successful_request_usd_sum),
    per_successful_request_usd_min = coalesce(min(per_successful_request_usd_min, excluded.per_successful_request_usd_min), per_successful_request_usd_min, excluded.per_successful_request_usd_min),
    per_successful_request_usd_max = coalesce(max(per_successful_request_usd_max, excluded.per_successful_request_usd_max), per_successful_request_usd_max, excluded.per_successful_request_usd_max),
    monthly_usd_count = monthly_usd_count + excluded.monthly_usd_count,
    monthly_usd_sum = coalesce(monthly_usd_sum + excluded.monthly_usd_sum, monthly_usd_sum, excluded.monthly_usd_sum),
    monthly_usd_min = coalesce(min(monthly_usd_min, excluded.monthly_usd_min), monthly_usd_min, excluded.monthly_usd_min),
    monthly_usd_max = coalesce(max(monthly_usd_max, excluded.monthly_usd_max), monthly_usd_max, excluded.monthly_usd_max),
    ttft_ms_p50_count = ttft_ms_p50_count + excluded.ttft_ms_p50_count,
    ttft_ms_p50_sum = coalesce(ttft_ms_p50_sum + excluded.ttft_ms_p50_sum, ttft_ms_p50_sum, excluded.ttft_ms_p50_sum),
    ttft_ms_p50_min = coalesce(min(ttft_ms_p50_min, excluded.ttft_ms_p50_min), ttft_ms_p50_min, excluded.ttft_ms_p50_min),
    ttft_ms_p50_max = coalesce(max(ttft_ms_p50_max, excluded.ttft_ms_p50_max), ttft_ms_p50_max, excluded.ttft_ms_p50_max),
    itl_ms_p50_count = itl_ms_p50_count + excluded.itl_ms_p50_count,
    itl_ms_p50_sum = coalesce(itl_ms_p50_sum + excluded.itl_ms_p50_sum, itl_ms_p50_sum, excluded.itl_ms_p50_sum),
    itl_ms_p50_min = coalesce(min(itl_ms_p50_min, excluded.itl_ms_p50_min), itl_ms_p50_min, excluded.itl_ms_p50_min),
    itl_ms_p50_max = coalesce(max(itl_ms_p50_max, excluded.itl_ms_p50_max), itl_ms_p50_max, excluded.itl_ms_p50_max),
    e2e_ms_p50_count = e2e_ms_p50_count + excluded.e2e_ms_p50_count,
    e2e_ms_p50_sum = coalesce(e2e_ms_p50_sum + excluded.e2e_ms_p50_sum, e2e_ms_p50_sum, excluded.e2e_ms_p50_sum),
    e2e_ms_p50_min = coalesce(min(e2e_ms_p50_min, excluded.e2e_ms_p50_min), e2e_ms_p50_min, excluded.e2e_ms_p50_min),
    e2e_ms_p50_max = coalesce(max(e2e_ms_p50_max, excluded.e2e_ms_p50_max), e2e_ms_p50_max, excluded.e2e_ms_p50_max),
    output_tokens_per_s_count = output_tokens_per_s_count + excluded.output_tokens_per_s_count,
    output_tokens_per_s_sum = coalesce(output_tokens_per_s_sum + excluded.output_tokens_per_s_sum, output_tokens_per_s_sum, excluded.output_tokens_per_s_sum),
    output_tokens_per_s_min = coalesce(min(output_tokens_per_s_min, excluded.output_tokens_per_s_min), output_tokens_per_s_min, excluded.output_tokens_per_s_min),
    output_tokens_per_s_max = coalesce(max(output_tokens_per_s_max, excluded.output_tokens_per_s_max), output_tokens_per_s_max, excluded.output_tokens_per_s_max),
    per_million_output_tokens_usd_count = per_million_output_tokens_usd_count + excluded.per_million_output_tokens_usd_count,
    per_million_output_tokens_usd_sum = coalesce(per_million_output_tokens_usd_sum + excluded.per_million_output_tokens_usd_sum, per_million_output_tokens_usd_sum, excluded.per_million_output_tokens_usd_sum),
    per_million_output_tokens_usd_min = coalesce(min(per_million_output_tokens_usd_min, excluded.per_million_output_tokens_usd_min), per_million_output_tokens_usd_min, excluded.per_million_output_tokens_usd_min),
    per_million_output_tokens_usd_max = coalesce(max(per_million_output_tokens_usd_max, excluded.per_million_output_tokens_usd_max), per_million_output_tokens_usd_max, excluded.per_million_output_tokens_usd_max),
    ttft_ms_p90_count = ttft_ms_p90_count + excluded.ttft_ms_p90_count,
    ttft_ms_p90_sum = coalesce(ttft_ms_p90_sum + excluded.ttft_ms_p90_sum, ttft_ms_p90_sum, excluded.ttft_ms_p90_sum),
    ttft_ms_p90_min = coalesce(min(ttft_ms_p90_min, excluded.ttft_ms_p90_min), ttft_ms_p90_min, excluded.ttft_ms_p90_min),
    ttft_ms_p90_max = coalesce(max(ttft_ms_p90_max, excluded.ttft_ms_p90_max), ttft_ms_p90_max, excluded.ttft_ms_p90_max),
    ttft_ms_p99_count = ttft_ms_p99_count + excluded.ttft_ms_p99_count,
    ttft_ms_p99_sum = coalesce(ttft_ms_p99_sum + excluded.ttft_ms_p99_sum, ttft_ms_p99_sum, excluded.ttft_ms_p99_sum),
    ttft_ms_p99_min = coalesce(min(ttft_ms_p99_min, excluded.ttft_ms_p99_min), ttft_ms_p99_min, excluded.ttft_ms_p99_min),
    ttft_ms_p99_max = coalesce(max(ttft_ms_p99_max, excluded.ttft_ms_p99_max), ttft_ms_p99_max, excluded.ttft_ms_p99_max),
    itl_ms_p90_count = itl_ms_p90_count + excluded.itl_ms_p90_count,
    itl_ms_p90_sum = coalesce(itl_ms_p90_sum + excluded.itl_ms_p90_sum, itl_ms_p90_sum, excluded.itl_ms_p90_sum),
    itl_ms_p90_min = coalesce(min(itl_ms_p90_min, excluded.itl_ms_p90_min), itl_ms_p90_min, excluded.itl_ms_p90_min),
    itl_ms_p90_max = coalesce(max(itl_ms_p90_max, excluded.itl_ms_p90_max), itl_ms_p90_max, excluded.itl_ms_p90_max),
    itl_ms_p99_count = itl_ms_p99_count + excluded.itl_ms_p99_count,
    itl_ms_p99_sum = coalesce(itl_ms_p99_sum + excluded.itl_ms_p99_sum, itl_ms_p99_sum, excluded.itl_ms_p99_sum),
    itl_ms_p99_min = coalesce(min(itl_ms_p99_min, excluded.itl_ms_p99_min), itl_ms_p99_min, excluded.itl_ms_p99_min),
    itl_ms_p99_max = coalesce(max(itl_ms_p99_max, excluded.itl_ms_p99_max), itl_ms_p99_max, excluded.itl_ms_p99_max),
    tpot_ms_mean_count = tpot_ms_mean_count + excluded.tpot_ms_mean_count,
    tpot_ms_mean_sum = coalesce(tpot_ms_mean_sum + excluded.tpot_ms_mean_sum, tpot_ms_mean_sum, excluded.tpot_ms_mean_sum),
    tpot_ms_mean_min = coalesce(min(tpot_ms_mean_min, excluded.tpot_ms_mean_min), tpot_ms_mean_min, excluded.tpot_ms_mean_min),
    tpot_ms_mean_max = coalesce(max(tpot_ms_mean_max, excluded.tpot_ms_mean_max), tpot_ms_mean_max, excluded.tpot_ms_mean_max),
    e2e_ms_p90_count = e2e_ms_p90_count + excluded.e2e_ms_p90_count,
    e2e_ms_p90_sum = coalesce(e2e_ms_p90_sum + excluded.e2e_ms_p90_sum, e2e_ms_p90_sum, excluded.e2e_ms_p90_sum),
    e2e_ms_p90_min = coalesce(min(e2e_ms_p90_min, excluded.e2e_ms_p90_min), e2e_ms_p90_min, excluded.e2e_ms_p90_min),
    e2e_ms_p90_max = coalesce(max(e2e_ms_p90_max, excluded.e2e_ms_p90_max), e2e_ms_p90_max, excluded.e2e_ms_p90_max),
    e2e_ms_p99_count = e2e_ms_p99_count + excluded.e2e_ms_p99_count,
    e2e_ms_p99_sum = coalesce(e2e_ms_p99_sum + excluded.e2e_ms_p99_sum, e2e_ms_p99_sum, excluded.e2e_ms_p99_sum),
    e2e_ms_p99_min = coalesce(min(e2e_ms_p99_min, excluded.e2e_ms_p99_min), e2e_ms_p99_min, excluded.e2e_ms_p99_min),
    e2e_ms_p99_max = coalesce(max(e2e_ms_p99_max, excluded.e2e_ms_p99_max), e2e_ms_p99_max, excluded.e2e_ms_p99_max),
    queue_ms_p99_count = queue_ms_p99_count + excluded.queue_ms_p99_count,
    queue_ms_p99_sum = coalesce(queue_ms_p99_sum + excluded.queue_ms_p99_sum, queue_ms_p99_sum, excluded.queue_ms_p99_sum),
    queue_ms_p99_min = coalesce(min(queue_ms_p99_min, excluded.queue_ms_p99_min), queue_ms_p99_min, excluded.queue_ms_p99_min),
    queue_ms_p99_max = coalesce(max(queue_ms_p99_max, excluded.queue_ms_p99_max), queue_ms_p99_max, excluded.queue_ms_p99_max),
    requests_per_s_count = requests_per_s_count + excluded.requests_per_s_count,
    requests_per_s_sum = coalesce(requests_per_s_sum + excluded.requests_per_s_sum, requests_per_s_sum, excluded.requests_per_s_sum),
    requests_per_s_min = coalesce(min(requests_per_s_min, excluded.requests_per_s_min), requests_per_s_min, excluded.requests_per_s_min),
    requests_per_s_max = coalesce(max(requests_per_s_max, excluded.requests_per_s_max), requests_per_s_max, excluded.requests_per_s_max),
    output_tokens_per_s_per_gpu_count = output_tokens_per_s_per_gpu_count + excluded.output_tokens_per_s_per_gpu_count,
    output_tokens_per_s_per_gpu_sum = coalesce(output_tokens_per_s_per_gpu_sum + excluded.output_tokens_per_s_per_gpu_sum, output_tokens_per_s_per_gpu_sum, excluded.output_tokens_per_s_per_gpu_sum),
    output_tokens_per_s_per_gpu_min = coalesce(min(output_tokens_per_s_per_gpu_min, excluded.output_tokens_per_s_per_gpu_min), output_tokens_per_s_per_gpu_min, excluded.output_tokens_per_s_per_gpu_min),
    output_tokens_per_s_per_gpu_max = coalesce(max(output_tokens_per_s_per_gpu_max, excluded.output_tokens_per_s_per_gpu_max), output_tokens_per_s_per_gpu_max, excluded.output_tokens_per_s_per_gpu_max),
    output_tokens_per_s_per_user_count = output_tokens_per_s_per_user_count + excluded.output_tokens_per_s_per_user_count,
    output_tokens_per_s_per_user_sum = coalesce(output_tokens_per_s_per_user_sum + excluded.output_tokens_per_s_per_user_sum, output_tokens_per_s_per_user_sum, excluded.output_tokens_per_s_per_user_sum),
    output_tokens_per_s_per_user_min = coalesce(min(output_tokens_per_s_per_user_min, excluded.output_tokens_per_s_per_user_min), output_tokens_per_s_per_user_min, excluded.output_tokens_per_s_per_user_min),
    output_tokens_per_s_per_user_max = coalesce(max(output_tokens_per_s_per_user_max, excluded.output_tokens_per_s_per_user_max), output_tokens_per_s_per_user_max, excluded.output_tokens_per_s_per_user_max),
    mean_batch_count = mean_batch_count + excluded.mean_batch_count,
    mean_batch_sum = coalesce(mean_batch_sum + excluded.mean_batch_sum, mean_batch_sum, excluded.mean_batch_sum),
    mean_batch_min = coalesce(min(mean_batch_min, excluded.mean_batch_min), mean_batch_min, excluded.mean_batch_min),
    mean_batch_max = coalesce(max(mean_batch_max, excluded.mean_batch_max), mean_batch_max, excluded.mean_batch_max),
    margin_to_knee_count = margin_to_knee_count + excluded.margin_to_knee_count,
    margin_to_knee_sum = coalesce(margin_to_knee_sum + excluded.margin_to_knee_sum, margin_to_knee_sum, excluded.margin_to_knee_sum),
    margin_to_knee_min = coalesce(min(margin_to_knee_min, excluded.margin_to_knee_min), margin_to_knee_min, excluded.margin_to_knee_min),
    margin_to_knee_max = coalesce(max(margin_to_knee_max, excluded.margin_to_knee_max), margin_to_knee_max, excluded.margin_to_knee_max),
    saturation_requests_per_s_count = saturation_requests_per_s_count + excluded.saturation_requests_per_s_count,
    saturation_requests_per_s_sum = coalesce(saturation_requests_per_s_sum + excluded.saturation_requests_per_s_sum, saturation_requests_per_s_sum, excluded.saturation_requests_per_s_sum),
    saturation_requests_per_s_min = coalesce(min(saturation_requests_per_s_min, excluded.saturation_requests_per_s_min), saturation_requests_per_s_min, excluded.saturation_requests_per_s_min),
    saturation_requests_per_s_max = coalesce(max(saturation_requests_per_s_max, excluded.saturation_requests_per_s_max), saturation_requests_per_s_max, excluded.saturation_requests_per_s_max),
    success_rate_count = success_rate_count + excluded.success_rate_count,
    success_rate_sum = coalesce(success_rate_sum + excluded.success_rate_sum, success_rate_sum, excluded.success_rate_sum),
    success_rate_min = coalesce(min(success_rate_min, excluded.success_rate_min), success_rate_min, excluded.success_rate_min),
    success_rate_max = coalesce(max(success_rate_max, excluded.success_rate_max), success_rate_max, excluded.success_rate_max),
    max_concurrent_sessions_count = max_concurrent_sessions_count + excluded.max_concurrent_sessions_count,
    max_concurrent_sessions_sum = coalesce(max_concurrent_sessions_sum + excluded.max_concurrent_sessions_sum, max_concurrent_sessions_sum, excluded.max_concurrent_sessions_sum),
    max_concurrent_sessions_min = coalesce(min(max_concurrent_sessions_min, excluded.max_concurrent_sessions_min), max_concurrent_sessions_min, excluded.max_concurrent_sessions_min),
    max_concurrent_sessions_max = coalesce(max(max_concurrent_sessions_max, excluded.max_concurrent_sessions_max), max_concurrent_sessions_max, excluded.max_concurrent_sessions_max),
    headroom_count = headroom_count + excluded.headroom_count,
    headroom_sum = coalesce(headroom_sum + excluded.headroom_sum, headroom_sum, excluded.headroom_sum),
    headroom_min = coalesce(min(headroom_min, excluded.headroom_min), headroom_min, excluded.headroom_min),
    headroom_max = coalesce(max(headroom_max, excluded.headroom_max), headroom_max, excluded.headroom_max),
    watts_per_gpu_count = watts_per_gpu_count + excluded.watts_per_gpu_count,
    watts_per_gpu_sum = coalesce(watts_per_gpu_sum + excluded.watts_per_gpu_sum, watts_per_gpu_sum, excluded.watts_per_gpu_sum),
    watts_per_gpu_min = coalesce(min(watts_per_gpu_min, excluded.watts_per_gpu_min), watts_per_gpu_min, excluded.watts_per_gpu_min),
    watts_per_gpu_max = coalesce(max(watts_per_gpu_max, excluded.watts_per_gpu_max), watts_per_gpu_max, excluded.watts_per_gpu_max),
    joules_per_request_count = joules_per_request_count + excluded.joules_per_request_count,
    joules_per_request_sum = coalesce(joules_per_request_sum + excluded.joules_per_request_sum, joules_per_request_sum, excluded.joules_per_request_sum),
    joules_per_request_min = coalesce(min(joules_per_request_min, excluded.joules_per_request_min), joules_per_request_min, excluded.joules_per_request_min),
    joules_per_request_max = coalesce(max(joules_per_request_max, excluded.joules_per_request_max), joules_per_request_max, excluded.joules_per_request_max);
END;
CREATE TABLE "scorecard" (
  id               TEXT    NOT NULL PRIMARY KEY,
  evaluation       TEXT    NOT NULL REFERENCES evaluation (id),
  ordinal          INTEGER NOT NULL CHECK (ordinal >= 0),
  created_at_ms    INTEGER NOT NULL,
  workload         TEXT    NOT NULL CHECK (workload <> ''),
  model            TEXT    NOT NULL CHECK (model <> ''),
  model_revision   INTEGER NOT NULL CHECK (model_revision >= 0),
  profile          TEXT    NOT NULL CHECK (profile <> ''),
  profile_revision INTEGER NOT NULL CHECK (profile_revision >= 0),
  verdict          TEXT    NOT NULL CHECK (verdict IN ('fit', 'fit_with_changes', 'no_fit')),
  label            TEXT    NOT NULL,
  stack            TEXT    NOT NULL,
  context_ref      TEXT    NOT NULL,
  sketch_digest    TEXT    NOT NULL,
  core_version     TEXT    NOT NULL,
  trace_digest     TEXT    REFERENCES trace_content (digest),
  gpus                          REAL CHECK (gpus BETWEEN -1e300 AND 1e300),
  per_successful_request_usd    REAL CHECK (per_successful_request_usd BETWEEN -1e300 AND 1e300),
  monthly_usd                   REAL CHECK (monthly_usd BETWEEN -1e300 AND 1e300),
  ttft_ms_p50                   REAL CHECK (ttft_ms_p50 BETWEEN -1e300 AND 1e300),
  itl_ms_p50                    REAL CHECK (itl_ms_p50 BETWEEN -1e300 AND 1e300),
  e2e_ms_p50                    REAL CHECK (e2e_ms_p50 BETWEEN -1e300 AND 1e300),
  output_tokens_per_s           REAL CHECK (output_tokens_per_s BETWEEN -1e300 AND 1e300),
  per_million_output_tokens_usd REAL CHECK (per_million_output_tokens_usd BETWEEN -1e300 AND 1e300),
  ttft_ms_p90                   REAL CHECK (ttft_ms_p90 BETWEEN -1e300 AND 1e300),
  ttft_ms_p99                   REAL CHECK (ttft_ms_p99 BETWEEN -1e300 AND 1e300),
  itl_ms_p90                    REAL CHECK (itl_ms_p90 BETWEEN -1e300 AND 1e300),
  itl_ms_p99                    REAL CHECK (itl_ms_p99 BETWEEN -1e300 AND 1e300),
  tpot_ms_mean                  REAL CHECK (tpot_ms_mean BETWEEN -1e300 AND 1e300),
  e2e_ms_p90                    REAL CHECK (e2e_ms_p90 BETWEEN -1e300 AND 1e300),
  e2e_ms_p99                    REAL CHECK (e2e_ms_p99 BETWEEN -1e300 AND 1e300),
  queue_ms_p99                  REAL CHECK (queue_ms_p99 BETWEEN -1e300 AND 1e300),
  requests_per_s                REAL CHECK (requests_per_s BETWEEN -1e300 AND 1e300),
  output_tokens_per_s_per_gpu   REAL CHECK (output_tokens_per_s_per_gpu BETWEEN -1e300 AND 1e300),
  output_tokens_per_s_per_user  REAL CHECK (output_tokens_per_s_per_user BETWEEN -1e300 AND 1e300),
  mean_batch                    REAL CHECK (mean_batch BETWEEN -1e300 AND 1e300),
  margin_to_knee                REAL CHECK (margin_to_knee BETWEEN -1e300 AND 1e300),
  saturation_requests_per_s     REAL CHECK (saturation_requests_per_s BETWEEN -1e300 AND 1e300),
  success_rate                  REAL CHECK (success_rate BETWEEN -1e300 AND 1e300),
  max_concurrent_sessions       REAL CHECK (max_concurrent_sessions BETWEEN -1e300 AND 1e300),
  headroom                      REAL CHECK (headroom BETWEEN -1e300 AND 1e300),
  watts_per_gpu                 REAL CHECK (watts_per_gpu BETWEEN -1e300 AND 1e300),
  joules_per_request            REAL CHECK (joules_per_request BETWEEN -1e300 AND 1e300),
  document         TEXT    NOT NULL,
  model_kind       TEXT    GENERATED ALWAYS AS (CASE WHEN model_revision > 0 THEN 'model' END) VIRTUAL,
  profile_kind     TEXT    GENERATED ALWAYS AS (CASE WHEN profile_revision > 0 THEN 'profile' END) VIRTUAL,
  UNIQUE (evaluation, ordinal),
  FOREIGN KEY (model_kind, model, model_revision) REFERENCES catalogue_revision (kind, name, revision),
  FOREIGN KEY (profile_kind, profile, profile_revision) REFERENCES catalogue_revision (kind, name, revision),
  CHECK (length(id) = 36 AND substr(id, 1, 8) || substr(id, 10, 4) = printf('%012x', created_at_ms))
) STRICT;
CREATE INDEX scorecard_by_context  ON scorecard (context_ref, id) WHERE context_ref <> '';
CREATE INDEX scorecard_by_label    ON scorecard (label, id) WHERE label <> '';
CREATE INDEX scorecard_by_model    ON scorecard (model, id);
CREATE INDEX scorecard_by_profile  ON scorecard (profile, id);
CREATE INDEX scorecard_by_series   ON scorecard (workload, profile, id);
CREATE INDEX scorecard_by_stack    ON scorecard (stack, id) WHERE stack <> '';
CREATE INDEX scorecard_by_trace    ON scorecard (trace_digest) WHERE trace_digest IS NOT NULL;
CREATE INDEX scorecard_by_workload ON scorecard (workload, id);
CREATE TABLE scorecard_day (
  workload TEXT    NOT NULL,
  profile  TEXT    NOT NULL,
  day      INTEGER NOT NULL,
  gpus_count INTEGER NOT NULL, gpus_sum REAL, gpus_min REAL, gpus_max REAL,
  per_successful_request_usd_count INTEGER NOT NULL, per_successful_request_usd_sum REAL, per_successful_request_usd_min REAL, per_successful_request_usd_max REAL,
  monthly_usd_count INTEGER NOT NULL, monthly_usd_sum REAL, monthly_usd_min REAL, monthly_usd_max REAL,
  ttft_ms_p50_count INTEGER NOT NULL, ttft_ms_p50_sum REAL, ttft_ms_p50_min REAL, ttft_ms_p50_max REAL,
  itl_ms_p50_count INTEGER NOT NULL, itl_ms_p50_sum REAL, itl_ms_p50_min REAL, itl_ms_p50_max REAL,
  e2e_ms_p50_count INTEGER NOT NULL, e2e_ms_p50_sum REAL, e2e_ms_p50_min REAL, e2e_ms_p50_max REAL,
  output_tokens_per_s_count INTEGER NOT NULL, output_tokens_per_s_sum REAL, output_tokens_per_s_min REAL, output_tokens_per_s_max REAL,
  per_million_output_tokens_usd_count INTEGER NOT NULL, per_million_output_tokens_usd_sum REAL, per_million_output_tokens_usd_min REAL, per_million_output_tokens_usd_max REAL,
  ttft_ms_p90_count INTEGER NOT NULL, ttft_ms_p90_sum REAL, ttft_ms_p90_min REAL, ttft_ms_p90_max REAL,
  ttft_ms_p99_count INTEGER NOT NULL, ttft_ms_p99_sum REAL, ttft_ms_p99_min REAL, ttft_ms_p99_max REAL,
  itl_ms_p90_count INTEGER NOT NULL, itl_ms_p90_sum REAL, itl_ms_p90_min REAL, itl_ms_p90_max REAL,
  itl_ms_p99_count INTEGER NOT NULL, itl_ms_p99_sum REAL, itl_ms_p99_min REAL, itl_ms_p99_max REAL,
  tpot_ms_mean_count INTEGER NOT NULL, tpot_ms_mean_sum REAL, tpot_ms_mean_min REAL, tpot_ms_mean_max REAL,
  e2e_ms_p90_count INTEGER NOT NULL, e2e_ms_p90_sum REAL, e2e_ms_p90_min REAL, e2e_ms_p90_max REAL,
  e2e_ms_p99_count INTEGER NOT NULL, e2e_ms_p99_sum REAL, e2e_ms_p99_min REAL, e2e_ms_p99_max REAL,
  queue_ms_p99_count INTEGER NOT NULL, queue_ms_p99_sum REAL, queue_ms_p99_min REAL, queue_ms_p99_max REAL,
  requests_per_s_count INTEGER NOT NULL, requests_per_s_sum REAL, requests_per_s_min REAL, requests_per_s_max REAL,
  output_tokens_per_s_per_gpu_count INTEGER NOT NULL, output_tokens_per_s_per_gpu_sum REAL, output_tokens_per_s_per_gpu_min REAL, output_tokens_per_s_per_gpu_max REAL,
  output_tokens_per_s_per_user_count INTEGER NOT NULL, output_tokens_per_s_per_user_sum REAL, output_tokens_per_s_per_user_min REAL, output_tokens_per_s_per_user_max REAL,
  mean_batch_count INTEGER NOT NULL, mean_batch_sum REAL, mean_batch_min REAL, mean_batch_max REAL,
  margin_to_knee_count INTEGER NOT NULL, margin_to_knee_sum REAL, margin_to_knee_min REAL, margin_to_knee_max REAL,
  saturation_requests_per_s_count INTEGER NOT NULL, saturation_requests_per_s_sum REAL, saturation_requests_per_s_min REAL, saturation_requests_per_s_max REAL,
  success_rate_count INTEGER NOT NULL, success_rate_sum REAL, success_rate_min REAL, success_rate_max REAL,
  max_concurrent_sessions_count INTEGER NOT NULL, max_concurrent_sessions_sum REAL, max_concurrent_sessions_min REAL, max_concurrent_sessions_max REAL,
  headroom_count INTEGER NOT NULL, headroom_sum REAL, headroom_min REAL, headroom_max REAL,
  watts_per_gpu_count INTEGER NOT NULL, watts_per_gpu_sum REAL, watts_per_gpu_min REAL, watts_per_gpu_max REAL,
  joules_per_request_count INTEGER NOT NULL, joules_per_request_sum REAL, joules_per_request_min REAL, joules_per_request_max REAL,
  PRIMARY KEY (workload, profile, day)
) STRICT, WITHOUT ROWID;
CREATE TABLE scorecard_series (
  workload TEXT NOT NULL,
  profile  TEXT NOT NULL,
  PRIMARY KEY (workload, profile)
) STRICT, WITHOUT ROWID;
CREATE TABLE token (
  id            TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  name          TEXT    NOT NULL CHECK (name <> ''),
  scope         TEXT    NOT NULL CHECK (scope IN ('read', 'evaluate', 'review', 'admin')),
  salt          TEXT    NOT NULL CHECK (salt <> ''),
  hash          TEXT    NOT NULL CHECK (hash <> ''),
  created_at_ms INTEGER NOT NULL,
  revoked_at_ms INTEGER CHECK (revoked_at_ms > 0)
) STRICT;
CREATE UNIQUE INDEX token_in_force ON token (name) WHERE revoked_at_ms IS NULL;
CREATE TABLE trace (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  digest        TEXT    NOT NULL REFERENCES trace_content (digest),
  document      TEXT    NOT NULL
) STRICT;
CREATE INDEX trace_by_digest ON trace (digest);
CREATE TABLE trace_content (
  digest        TEXT    NOT NULL PRIMARY KEY CHECK (digest <> ''),
  request_count INTEGER NOT NULL CHECK (request_count > 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE trace_part (
  digest        TEXT    NOT NULL REFERENCES trace_content (digest) ON DELETE CASCADE,
  first_request INTEGER NOT NULL CHECK (first_request >= 0),
  requests      BLOB    NOT NULL CHECK (length(requests) > 0 AND length(requests) % 20 = 0),
  prefix_hashes BLOB    NOT NULL CHECK (length(prefix_hashes) % 4 = 0),
  PRIMARY KEY (digest, first_request)
) STRICT;
CREATE TABLE write_probe (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  content BLOB    NOT NULL
) STRICT;
