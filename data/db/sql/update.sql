-- Inside the updates: what reads, computes, writes, and what waits.
-- Seconds a step, the mean of whole steps. Each part spans the whole job; busy is the time in which
-- it was at work, the rest of it waits. They run beside each other and do not add up.
SELECT device, avg(seconds) AS seconds, avg(read_busy) AS read_busy,
    avg(compute_busy) AS compute_busy, avg(write_busy) AS write_busy,
    avg(read_wait) AS read_wait, avg(compute_wait) AS compute_wait, avg(write_wait) AS write_wait
FROM update_parts GROUP BY device ORDER BY device
