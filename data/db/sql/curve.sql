-- Loss, learning rate, seconds a step along the run, in 400 pieces.
-- At most 400, of equal length.
-- first, last: the piece's steps, from 0; least and most of what lies in it, and the mean. Losses
-- are those of finite_steps of its steps, which have one that is a number.
WITH bounds AS (SELECT min(step) AS begin, max(step) - min(step) + 1 AS n FROM steps)
SELECT min(step) AS first, max(step) AS last, min(finite) AS loss_least, avg(finite) AS loss,
    max(finite) AS loss_most, count(finite) AS finite_steps, avg(lr) AS lr,
    avg(grad_norm) AS grad_norm,
    min(nullif(seconds, 0)) AS seconds_least, avg(nullif(seconds, 0)) AS seconds,
    max(nullif(seconds, 0)) AS seconds_most
FROM (SELECT *, iif(abs(loss) < 9e999, loss, NULL) AS finite FROM steps), bounds
GROUP BY (step - begin) * min(400, n) / n ORDER BY first
