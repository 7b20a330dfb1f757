-- The memory plan, part by part, in bytes.
-- As `siTrain plan` prints it.
-- It was made when the run was last opened for training. What the process really held is peak_rss
-- in steps; limit is --host-mem, or what the machine had.
SELECT substr(value, instr(value, ' ') + 1) AS part, CAST(value AS INTEGER) AS bytes FROM runs
WHERE key LIKE 'memory.__' ORDER BY key
