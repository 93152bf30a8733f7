-- Knobs that teams may turn, and the dated decisions that turned them.

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

-- effective_at_ms is the decision's own date, which may lie before the day it was recorded. What ended a decision is the
-- next one about the same knob, or one that names it; both are found and never written.
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

CREATE TRIGGER decision_is_final BEFORE UPDATE ON decision
BEGIN
  SELECT RAISE(ABORT, 'decisions are never rewritten');
END;
