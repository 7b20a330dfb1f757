-- Steps that were skipped: the first 100.
-- Their gradient was not finite.
SELECT step, loss, grad_norm FROM steps WHERE skipped ORDER BY step LIMIT 100
