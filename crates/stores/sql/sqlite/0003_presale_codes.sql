-- Presale codes (B7). A code belongs to the first `max_users` users who got a ticket with it.
CREATE TABLE IF NOT EXISTS presale_codes (
  activity TEXT NOT NULL,
  code TEXT NOT NULL,
  max_users INTEGER NOT NULL,
  users INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (activity, code),
  CHECK (users BETWEEN 0 AND max_users)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS presale_users (
  activity TEXT NOT NULL,
  code TEXT NOT NULL,
  user_id TEXT NOT NULL,
  PRIMARY KEY (activity, user_id, code)
) WITHOUT ROWID;

-- A user is written if the code has room for one more, or has this user already.
CREATE TRIGGER IF NOT EXISTS presale_users_fit BEFORE INSERT ON presale_users
WHEN NOT EXISTS (
  SELECT 1 FROM presale_users WHERE activity = NEW.activity AND code = NEW.code AND user_id = NEW.user_id)
BEGIN
  SELECT RAISE(IGNORE) WHERE NOT EXISTS (
    SELECT 1 FROM presale_codes WHERE activity = NEW.activity AND code = NEW.code AND users < max_users);
  UPDATE presale_codes SET users = users + 1 WHERE activity = NEW.activity AND code = NEW.code;
END;

CREATE TRIGGER IF NOT EXISTS activities_delete_codes BEFORE DELETE ON activities
BEGIN
  DELETE FROM presale_users WHERE activity = OLD.id;
  DELETE FROM presale_codes WHERE activity = OLD.id;
END;

INSERT INTO schema_versions (version) VALUES (3) ON CONFLICT DO NOTHING;
