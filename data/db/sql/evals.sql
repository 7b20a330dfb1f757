-- Evaluations: after which step (from 0) which measure had which value.
SELECT step, name AS measure, value FROM evals ORDER BY step, name
