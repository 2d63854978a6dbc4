SELECT id
FROM activities
WHERE state IN ('published', 'paused', 'closed') AND starts_at <= (SELECT {now}) + ?1 AND ends_at > (SELECT {now}) - ?2
ORDER BY starts_at DESC, id
LIMIT 100
