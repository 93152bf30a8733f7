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
CREATE TABLE node (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  document      TEXT    NOT NULL,
  secrets       TEXT    NOT NULL
) STRICT;
CREATE TABLE schema_migration (
  version       INTEGER PRIMARY KEY CHECK (version > 0),
  name          TEXT    NOT NULL CHECK (name <> ''),
  sha256        TEXT    NOT NULL CHECK (length(sha256) = 64),
  applied_at_ms INTEGER NOT NULL CHECK (applied_at_ms > 0)
) STRICT;
CREATE TRIGGER scorecard_has_series AFTER INSERT ON scorecard
BEGIN
  INSERT INTO scorecard_series (workload, profile) VALUES (NEW.workload, NEW.profile) ON CONFLICT DO NOTHING;
END;
CREATE TABLE scorecard (
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
  gpus                       REAL CHECK (gpus BETWEEN 0 AND 1e300),
  per_successful_request_usd REAL CHECK (per_successful_request_usd BETWEEN 0 AND 1e300),
  monthly_usd                REAL CHECK (monthly_usd BETWEEN 0 AND 1e300),
  ttft_ms_p50                REAL CHECK (ttft_ms_p50 BETWEEN 0 AND 1e300),
  itl_ms_p50                 REAL CHECK (itl_ms_p50 BETWEEN 0 AND 1e300),
  e2e_ms_p50                 REAL CHECK (e2e_ms_p50 BETWEEN 0 AND 1e300),
  output_tokens_per_s        REAL CHECK (output_tokens_per_s BETWEEN 0 AND 1e300),
  document         TEXT    NOT NULL,
  model_kind       TEXT    GENERATED ALWAYS AS (CASE WHEN model_revision > 0 THEN 'model' END) VIRTUAL,
  profile_kind     TEXT    GENERATED ALWAYS AS (CASE WHEN profile_revision > 0 THEN 'profile' END) VIRTUAL, trace_digest TEXT REFERENCES trace_content (digest),
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
CREATE INDEX scorecard_by_trace ON scorecard (trace_digest) WHERE trace_digest IS NOT NULL;
CREATE INDEX scorecard_by_workload ON scorecard (workload, id);
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
