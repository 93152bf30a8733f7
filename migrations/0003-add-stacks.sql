-- Stacks (driver, framework, runtime, kernels under one name) join the catalogue, and an evaluation says whether it was one of
-- a workload's official sketch.

-- Which kinds there are is the program's business (enum store_catalogue): a new one needs no new table.
CREATE TABLE catalogue_name_of_any_kind (
  kind            TEXT    NOT NULL CHECK (kind <> ''),
  name            TEXT    NOT NULL CHECK (name <> ''),
  newest_revision INTEGER NOT NULL CHECK (newest_revision > 0),
  alias           TEXT    NOT NULL COLLATE NOCASE,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

INSERT INTO catalogue_name_of_any_kind (kind, name, newest_revision, alias)
SELECT kind, name, newest_revision, alias FROM catalogue_name;

DROP TABLE catalogue_name;

ALTER TABLE catalogue_name_of_any_kind RENAME TO catalogue_name;

CREATE INDEX catalogue_name_by_alias ON catalogue_name (kind, alias) WHERE alias <> '';

-- The revision of the workload whose sketch this was; 0 = any other sketch.
ALTER TABLE evaluation ADD COLUMN official_revision INTEGER NOT NULL DEFAULT 0 CHECK (official_revision >= 0);

CREATE INDEX evaluation_official ON evaluation (workload, id) WHERE official_revision > 0;
