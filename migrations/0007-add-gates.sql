-- Gates: signed targets that a pipeline checks, the baselines that regressions are held against, waivers, and every check.

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

-- is_chosen: somebody named it; else the first passing check after sign-off did.
CREATE TABLE gate_baseline (
  gate      INTEGER NOT NULL REFERENCES gate (id) ON DELETE CASCADE,
  profile   TEXT    NOT NULL CHECK (profile <> ''),
  scorecard TEXT    NOT NULL REFERENCES scorecard (id),
  set_at_ms INTEGER NOT NULL,
  is_chosen INTEGER NOT NULL CHECK (is_chosen IN (0, 1)),
  PRIMARY KEY (gate, profile)
) STRICT, WITHOUT ROWID;

CREATE INDEX gate_baseline_by_scorecard ON gate_baseline (scorecard);

CREATE TABLE gate_waiver (
  id            TEXT    NOT NULL PRIMARY KEY,
  gate          INTEGER NOT NULL REFERENCES gate (id) ON DELETE CASCADE,
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL
) STRICT;

CREATE INDEX gate_waiver_by_gate ON gate_waiver (gate, expires_at_ms);

-- The gate by its name: checks outlive it.
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
