SELECT
  (SELECT COUNT(*) FROM events WHERE state = 'waiting'),
  (SELECT COALESCE(MIN(happened_at), 0) FROM events WHERE state = 'waiting'),
  {refunds},
  {stuck_refunds},
  (SELECT COUNT(*) FROM callbacks WHERE outcome NOT IN {not_held_outcomes}),
  (SELECT COUNT(*) FROM dead_letters WHERE replayed_at < died_at)
