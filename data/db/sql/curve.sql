-- Loss, learning rate, seconds a step along the run, in 400 pieces.
-- At most 400, of equal length.
-- first, last: the piece's steps, from 0; least and most of what lies in it, and the mean. Losses
-- are those of finite_steps of its steps, which have one that is a number. loss_smooth: the mean of
-- `loss` over the pieces within a fortieth of the run on both sides.
WITH bounds AS (SELECT min(step) AS begin, max(step) - min(step) + 1 AS n FROM steps),
    pieces AS (SELECT (step - begin) * min(400, n) / n AS at, min(step) AS first,
        max(step) AS last, min(finite) AS loss_least, avg(finite) AS loss,
        max(finite) AS loss_most, count(finite) AS finite_steps, avg(lr) AS lr,
        avg(grad_norm) AS grad_norm,
        min(nullif(seconds, 0)) AS seconds_least, avg(nullif(seconds, 0)) AS seconds,
        max(nullif(seconds, 0)) AS seconds_most, min(400, n) AS n
    FROM (SELECT *, iif(abs(loss) < 9e999, loss, NULL) AS finite FROM steps), bounds GROUP BY at),
    smoothed AS (SELECT a.at AS at, avg(b.loss) AS loss_smooth FROM pieces a JOIN pieces b
        ON abs(b.at - a.at) <= a.n / 40
    WHERE a.loss IS NOT NULL GROUP BY a.at)
SELECT first, last, loss_least, loss, loss_most, finite_steps, lr, grad_norm, seconds_least,
    seconds, seconds_most, loss_smooth
FROM pieces LEFT JOIN smoothed USING (at) ORDER BY first
