-- Recorded requests that a sketch can replay. What was recorded is kept by its digest, apart from the name it has now:
-- a name moves on when another recording is put under it, a scorecard keeps the one it used.

CREATE TABLE trace_content (
  digest        TEXT    NOT NULL PRIMARY KEY CHECK (digest <> ''),
  request_count INTEGER NOT NULL CHECK (request_count > 0)
) STRICT, WITHOUT ROWID;

-- Consecutive requests as records of fixed size, in order of arrival; storage/traces.c has their layout. The prefix hashes
-- of all requests of a part follow one another, four bytes each.
CREATE TABLE trace_part (
  digest        TEXT    NOT NULL REFERENCES trace_content (digest) ON DELETE CASCADE,
  first_request INTEGER NOT NULL CHECK (first_request >= 0),
  requests      BLOB    NOT NULL CHECK (length(requests) > 0 AND length(requests) % 20 = 0),
  prefix_hashes BLOB    NOT NULL CHECK (length(prefix_hashes) % 4 = 0),
  PRIMARY KEY (digest, first_request)
) STRICT;

CREATE TABLE trace (
  name          TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  revision      INTEGER NOT NULL CHECK (revision > 0),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms >= 0),
  digest        TEXT    NOT NULL REFERENCES trace_content (digest),
  document      TEXT    NOT NULL
) STRICT;

CREATE INDEX trace_by_digest ON trace (digest);

ALTER TABLE scorecard ADD COLUMN trace_digest TEXT REFERENCES trace_content (digest);

CREATE INDEX scorecard_by_trace ON scorecard (trace_digest) WHERE trace_digest IS NOT NULL;
