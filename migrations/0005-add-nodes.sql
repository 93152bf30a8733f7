-- Nodes whose exporters are scraped, and what was seen there as roll-ups.

CREATE TABLE node (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  document      TEXT    NOT NULL,
  secrets       TEXT    NOT NULL
) STRICT;

-- One GPU over one step of time; api/live_roll.c has the layout of the figures.
CREATE TABLE gpu_sample (
  node    TEXT    NOT NULL REFERENCES node (name) ON DELETE CASCADE,
  gpu     TEXT    NOT NULL CHECK (gpu <> ''),
  step_s  INTEGER NOT NULL CHECK (step_s > 0),
  time_ms INTEGER NOT NULL CHECK (time_ms >= 0),
  figures BLOB    NOT NULL,
  PRIMARY KEY (node, gpu, step_s, time_ms)
) STRICT, WITHOUT ROWID;

CREATE INDEX gpu_sample_by_time ON gpu_sample (step_s, time_ms);

-- The engines of one node over one step of time.
CREATE TABLE engine_sample (
  node     TEXT    NOT NULL REFERENCES node (name) ON DELETE CASCADE,
  step_s   INTEGER NOT NULL CHECK (step_s > 0),
  time_ms  INTEGER NOT NULL CHECK (time_ms >= 0),
  document TEXT    NOT NULL,
  PRIMARY KEY (node, step_s, time_ms)
) STRICT, WITHOUT ROWID;

CREATE INDEX engine_sample_by_time ON engine_sample (step_s, time_ms);
