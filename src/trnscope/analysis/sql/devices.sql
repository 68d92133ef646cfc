-- Time per logical NeuronCore: how much ran on it and for how long it was busy.
--
-- device          logical NeuronCore
-- executions      launches
-- device_time_ns  sum over its executions
-- busy_ns         length of their union: smaller than the sum where streams overlap
-- first_start_ns, last_end_ns  virtual device clock
WITH ordered AS (
    SELECT
        device,
        start_ns,
        end_ns,
        device_time_ns,
        max(end_ns) OVER (
            PARTITION BY device ORDER BY start_ns, end_ns, exec_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM Execution
)

SELECT
    device,
    count(*) AS executions,
    CAST(sum(device_time_ns) AS BIGINT) AS device_time_ns,
    CAST(sum(greatest(end_ns - greatest(start_ns, coalesce(covered_until_ns, start_ns)), 0)) AS BIGINT) AS busy_ns,
    min(start_ns) AS first_start_ns,
    max(end_ns) AS last_end_ns
FROM ordered
GROUP BY device
ORDER BY device
