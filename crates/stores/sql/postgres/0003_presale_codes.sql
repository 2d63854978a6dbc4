-- Presale codes (B7). A code belongs to the first `max_users` users who got a ticket with it.
CREATE TABLE IF NOT EXISTS presale_codes (
  activity TEXT NOT NULL REFERENCES activities (id) ON DELETE CASCADE,
  code TEXT COLLATE "C" NOT NULL,
  max_users BIGINT NOT NULL,
  users BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (activity, code),
  CHECK (users BETWEEN 0 AND max_users)
);

CREATE TABLE IF NOT EXISTS presale_users (
  activity TEXT NOT NULL,
  code TEXT COLLATE "C" NOT NULL,
  user_id TEXT NOT NULL,
  PRIMARY KEY (activity, user_id, code)
);

-- A user is written if the code has room for one more, or has this user already.
CREATE OR REPLACE FUNCTION presale_users_fit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Users of one code wait for each other, and each sees those before.
  PERFORM 1 FROM presale_codes WHERE activity = NEW.activity AND code = NEW.code FOR UPDATE;
  IF EXISTS (
    SELECT 1 FROM presale_users WHERE activity = NEW.activity AND code = NEW.code AND user_id = NEW.user_id
  ) THEN
    RETURN NEW;
  END IF;
  UPDATE presale_codes SET users = users + 1
  WHERE activity = NEW.activity AND code = NEW.code AND users < max_users;
  RETURN CASE WHEN FOUND THEN NEW END;
END $$;

CREATE OR REPLACE TRIGGER presale_users_fit BEFORE INSERT ON presale_users FOR EACH ROW
  EXECUTE FUNCTION presale_users_fit();

INSERT INTO schema_versions (version) VALUES (3) ON CONFLICT DO NOTHING;
