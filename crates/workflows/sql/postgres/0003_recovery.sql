-- Fencing: the epoch of an activity's data in Redis, which every rebuild raises, and the leases of the sweepers.

-- G5: an order message carries the epoch of the gate that accepted it. A message of an older epoch is not written.
CREATE TABLE IF NOT EXISTS epochs (
  activity TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL CHECK (epoch > 0)
);

-- An epoch only rises.
CREATE OR REPLACE FUNCTION epochs_rise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.epoch <= OLD.epoch THEN
    RAISE EXCEPTION 'illegal move';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER epochs_rise BEFORE UPDATE ON epochs FOR EACH ROW EXECUTE FUNCTION epochs_rise();

-- G3: the token grows each time the lease is acquired; a statement under a lease checks it.
CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  token BIGINT NOT NULL,
  until BIGINT NOT NULL,
  resume_after TEXT NOT NULL DEFAULT ''
);

INSERT INTO schema_versions (version) VALUES (3) ON CONFLICT DO NOTHING;
