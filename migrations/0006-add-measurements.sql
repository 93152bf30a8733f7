-- The figures that dashboards plot (storage/figures.def) become columns: of each scorecard, and of each day of a workload ×
-- profile, so that a year by day is 365 short rows. The table is written anew so that figures lie before the document.
-- Measurements beside predictions, factors fitted to them, and results of quality benchmarks get their tables.

DROP TRIGGER scorecard_has_series;

CREATE TABLE scorecard_with_figures (
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

-- What was no column before is in the documents.
INSERT INTO scorecard_with_figures (id, evaluation, ordinal, created_at_ms, workload, model, model_revision, profile,
  profile_revision, verdict, label, stack, context_ref, sketch_digest, core_version, trace_digest,
  gpus, per_successful_request_usd, monthly_usd, ttft_ms_p50, itl_ms_p50,
  e2e_ms_p50, output_tokens_per_s, per_million_output_tokens_usd, ttft_ms_p90, ttft_ms_p99,
  itl_ms_p90, itl_ms_p99, tpot_ms_mean, e2e_ms_p90, e2e_ms_p99,
  queue_ms_p99, requests_per_s, output_tokens_per_s_per_gpu, output_tokens_per_s_per_user, mean_batch,
  margin_to_knee, saturation_requests_per_s, success_rate, max_concurrent_sessions, headroom,
  watts_per_gpu, joules_per_request,
  document)
SELECT id, evaluation, ordinal, created_at_ms, workload, model, model_revision, profile, profile_revision, verdict, label,
  stack, context_ref, sketch_digest, core_version, trace_digest,
  gpus, per_successful_request_usd, monthly_usd, ttft_ms_p50, itl_ms_p50, e2e_ms_p50, output_tokens_per_s,
  document ->> '$.cost.per_million_output_tokens_usd',
  document ->> '$.latency.ttft_ms.p90',
  document ->> '$.latency.ttft_ms.p99',
  document ->> '$.latency.itl_ms.p90',
  document ->> '$.latency.itl_ms.p99',
  document ->> '$.latency.tpot_ms.mean',
  document ->> '$.latency.e2e_ms.p90',
  document ->> '$.latency.e2e_ms.p99',
  document ->> '$.latency.queue_ms.p99',
  document ->> '$.throughput.requests_per_s',
  document ->> '$.throughput.output_tokens_per_s_per_gpu',
  document ->> '$.throughput.output_tokens_per_s_per_user',
  document ->> '$.throughput.mean_batch',
  document ->> '$.limits.margin_to_knee',
  document ->> '$.limits.saturation_requests_per_s',
  document ->> '$.success.rate',
  document ->> '$.memory.max_concurrent_sessions',
  document ->> '$.memory.headroom',
  document ->> '$.energy.watts_per_gpu',
  document ->> '$.energy.joules_per_request',
  document
FROM scorecard ORDER BY id;

DROP TABLE scorecard;

ALTER TABLE scorecard_with_figures RENAME TO scorecard;

CREATE INDEX scorecard_by_workload ON scorecard (workload, id);
CREATE INDEX scorecard_by_series   ON scorecard (workload, profile, id);
CREATE INDEX scorecard_by_model    ON scorecard (model, id);
CREATE INDEX scorecard_by_profile  ON scorecard (profile, id);
CREATE INDEX scorecard_by_label    ON scorecard (label, id) WHERE label <> '';
CREATE INDEX scorecard_by_stack    ON scorecard (stack, id) WHERE stack <> '';
CREATE INDEX scorecard_by_context  ON scorecard (context_ref, id) WHERE context_ref <> '';
CREATE INDEX scorecard_by_trace    ON scorecard (trace_digest) WHERE trace_digest IS NOT NULL;

-- day counts from 1970-01-01 in UTC. Of each figure: how many scorecards have it, their sum, least and greatest.
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

INSERT INTO scorecard_day
SELECT workload, profile, created_at_ms / 86400000,
  count(gpus), sum(gpus), min(gpus), max(gpus),
  count(per_successful_request_usd), sum(per_successful_request_usd), min(per_successful_request_usd), max(per_successful_request_usd),
  count(monthly_usd), sum(monthly_usd), min(monthly_usd), max(monthly_usd),
  count(ttft_ms_p50), sum(ttft_ms_p50), min(ttft_ms_p50), max(ttft_ms_p50),
  count(itl_ms_p50), sum(itl_ms_p50), min(itl_ms_p50), max(itl_ms_p50),
  count(e2e_ms_p50), sum(e2e_ms_p50), min(e2e_ms_p50), max(e2e_ms_p50),
  count(output_tokens_per_s), sum(output_tokens_per_s), min(output_tokens_per_s), max(output_tokens_per_s),
  count(per_million_output_tokens_usd), sum(per_million_output_tokens_usd), min(per_million_output_tokens_usd), max(per_million_output_tokens_usd),
  count(ttft_ms_p90), sum(ttft_ms_p90), min(ttft_ms_p90), max(ttft_ms_p90),
  count(ttft_ms_p99), sum(ttft_ms_p99), min(ttft_ms_p99), max(ttft_ms_p99),
  count(itl_ms_p90), sum(itl_ms_p90), min(itl_ms_p90), max(itl_ms_p90),
  count(itl_ms_p99), sum(itl_ms_p99), min(itl_ms_p99), max(itl_ms_p99),
  count(tpot_ms_mean), sum(tpot_ms_mean), min(tpot_ms_mean), max(tpot_ms_mean),
  count(e2e_ms_p90), sum(e2e_ms_p90), min(e2e_ms_p90), max(e2e_ms_p90),
  count(e2e_ms_p99), sum(e2e_ms_p99), min(e2e_ms_p99), max(e2e_ms_p99),
  count(queue_ms_p99), sum(queue_ms_p99), min(queue_ms_p99), max(queue_ms_p99),
  count(requests_per_s), sum(requests_per_s), min(requests_per_s), max(requests_per_s),
  count(output_tokens_per_s_per_gpu), sum(output_tokens_per_s_per_gpu), min(output_tokens_per_s_per_gpu), max(output_tokens_per_s_per_gpu),
  count(output_tokens_per_s_per_user), sum(output_tokens_per_s_per_user), min(output_tokens_per_s_per_user), max(output_tokens_per_s_per_user),
  count(mean_batch), sum(mean_batch), min(mean_batch), max(mean_batch),
  count(margin_to_knee), sum(margin_to_knee), min(margin_to_knee), max(margin_to_knee),
  count(saturation_requests_per_s), sum(saturation_requests_per_s), min(saturation_requests_per_s), max(saturation_requests_per_s),
  count(success_rate), sum(success_rate), min(success_rate), max(success_rate),
  count(max_concurrent_sessions), sum(max_concurrent_sessions), min(max_concurrent_sessions), max(max_concurrent_sessions),
  count(headroom), sum(headroom), min(headroom), max(headroom),
  count(watts_per_gpu), sum(watts_per_gpu), min(watts_per_gpu), max(watts_per_gpu),
  count(joules_per_request), sum(joules_per_request), min(joules_per_request), max(joules_per_request)
FROM scorecard GROUP BY workload, profile, created_at_ms / 86400000;

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

CREATE INDEX measurement_by_series  ON measurement (workload, profile, id);
CREATE INDEX measurement_by_profile ON measurement (profile, model, id);

-- path: the figure's dotted name. predicted is NULL where the core had no figure for it.
CREATE TABLE measurement_figure (
  measurement TEXT NOT NULL REFERENCES measurement (id),
  path        TEXT NOT NULL CHECK (path <> ''),
  measured    REAL NOT NULL CHECK (measured BETWEEN 0 AND 1e300),
  predicted   REAL CHECK (predicted BETWEEN 0 AND 1e300),
  PRIMARY KEY (measurement, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER measurement_is_final BEFORE UPDATE ON measurement
BEGIN
  SELECT RAISE(ABORT, 'measurements are never rewritten');
END;

-- model and stack '' = of any. A fit is never rewritten; retiring it only says when.
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

-- weights, kv_cache: formats of the model as it was served in the run.
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

CREATE TRIGGER quality_result_is_final BEFORE UPDATE ON quality_result
BEGIN
  SELECT RAISE(ABORT, 'quality results are never rewritten');
END;
