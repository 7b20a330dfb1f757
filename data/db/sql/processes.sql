-- Who trained the run, by which command, on which machine.
-- From first_step (from 0) on.
SELECT process, first_step, begun, pid, version, command AS text, host, system, cpu, threads, memory_bytes
FROM processes ORDER BY process
