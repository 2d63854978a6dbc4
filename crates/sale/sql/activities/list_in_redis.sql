SELECT id
FROM activities
WHERE state NOT IN ('draft', 'erasing') AND (ends_at > ?1 OR updated_at > ?1)
ORDER BY id
