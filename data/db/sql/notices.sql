-- What was said while it ran, the last 200.
-- Fall-backs, skipped steps, changes at a resume.
SELECT time, text FROM (SELECT id, time, text FROM notices ORDER BY id DESC LIMIT 200) ORDER BY id
