-- The weekly fit reviews. Until a review is signed by everybody who must, its document is replaced as a whole; from then on
-- it stands, and what is said later is an addendum.

CREATE TABLE review (
  week          TEXT    NOT NULL PRIMARY KEY CHECK (week GLOB '[0-9][0-9][0-9][0-9]-W[0-5][0-9]'),
  version       INTEGER NOT NULL CHECK (version > 0),
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL,
  signed_at_ms  INTEGER,
  document      TEXT    NOT NULL
) STRICT;

CREATE INDEX review_signed ON review (week) WHERE signed_at_ms IS NOT NULL;

CREATE TRIGGER review_is_final BEFORE UPDATE ON review WHEN OLD.signed_at_ms IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'signed reviews are never rewritten');
END;

CREATE TABLE review_addendum (
  id            TEXT    NOT NULL PRIMARY KEY,
  week          TEXT    NOT NULL REFERENCES review (week),
  created_at_ms INTEGER NOT NULL,
  document      TEXT    NOT NULL
) STRICT;

CREATE INDEX review_addendum_by_week ON review_addendum (week, id);

CREATE TRIGGER review_addendum_is_final BEFORE UPDATE ON review_addendum
BEGIN
  SELECT RAISE(ABORT, 'addenda are never rewritten');
END;
