-- How much of the devices' work nobody waited for.
-- Of all whole steps, process by process.
-- Over time, not over steps: busy is the time in which any device worked, waited the part of it in
-- which the training thread stood in any wait, hidden_seconds the rest; hidden: their part of busy.
SELECT process, busy_seconds, waited_seconds, hidden_seconds,
    hidden_seconds / busy_seconds AS hidden
FROM overlap WHERE busy_seconds > 0 ORDER BY process
