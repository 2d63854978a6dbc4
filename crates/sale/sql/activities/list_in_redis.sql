SELECT id
FROM activities
WHERE state NOT IN ('draft', 'erasing') AND (ends_at > (SELECT {now}) - ?1 OR updated_at > (SELECT {now}) - ?1)
ORDER BY id
