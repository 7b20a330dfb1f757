-- What --activations auto or ssdtrain chose, and what came of it.
-- Of how many layers inputs, attentions and MLPs are kept in RAM, of how many offloaded; the rest is computed again.
-- Seconds of a step: step_seconds when it was chosen, expected_seconds, and after_seconds, the median since.
SELECT * FROM choice_outcomes ORDER BY step
