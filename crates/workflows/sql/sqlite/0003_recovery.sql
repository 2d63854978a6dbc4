-- Fencing: the epoch of an activity's data in Redis, which every rebuild raises, and the leases of the sweepers.

-- G5: an order message carries the epoch of the gate that accepted it. A message of an older epoch is not written.
CREATE TABLE IF NOT EXISTS epochs (
  activity TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL CHECK (epoch > 0)
) WITHOUT ROWID;

-- An epoch only rises.
CREATE TRIGGER IF NOT EXISTS epochs_rise BEFORE UPDATE ON epochs WHEN NEW.epoch <= OLD.epoch
BEGIN
  SELECT RAISE(ABORT, 'illegal move');
END;

-- G3: the token grows each time the lease is acquired; a statement under a lease checks it.
CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  token INTEGER NOT NULL,
  until INTEGER NOT NULL,
  resume_after TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

INSERT INTO schema_versions (version) VALUES (3) ON CONFLICT DO NOTHING;
