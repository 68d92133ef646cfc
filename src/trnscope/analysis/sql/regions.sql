-- Regions of the script beside each other: record_function annotations, then profiler steps.
--
-- An execution belongs to a region when its op was dispatched inside of it, on whichever thread: the backward thread
-- works for the region in which the main thread waits. Regions may nest; each is counted by itself.
--
-- kind            annotation or step
-- name            as given in the script; steps are named by their number
-- times           occurrences
-- executions      launches, all occurrences together
-- device_time_ns  of these executions
-- host_time_ns    length of the occurrences on the virtual host clock, waiting included
-- main_op         op with most of the device time, null when nothing ran
WITH region AS (
    SELECT 'annotation' AS kind, name, start_ns, end_ns
    FROM UserAnnotation
    UNION ALL
    SELECT 'step' AS kind, CAST(step AS VARCHAR) AS name, start_ns, end_ns
    FROM Step
),

numbered AS (
    SELECT *, row_number() OVER (ORDER BY kind, start_ns, end_ns DESC) AS occurrence
    FROM region
),

op_time AS (
    SELECT
        r.kind,
        r.name,
        e.op,
        count(e.exec_id) AS executions,
        coalesce(sum(e.device_time_ns), 0) AS device_time_ns
    FROM numbered AS r
    LEFT JOIN (
        SELECT e.exec_id, e.device_time_ns, o.host_start_ns, o.op
        FROM Execution AS e
        JOIN OpRecord AS o USING (op_id)
    ) AS e ON e.host_start_ns >= r.start_ns AND e.host_start_ns < r.end_ns
    GROUP BY r.kind, r.name, e.op
),

occurrences AS (
    SELECT kind, name, count(*) AS times, sum(end_ns - start_ns) AS host_time_ns, min(occurrence) AS first_occurrence
    FROM numbered
    GROUP BY kind, name
)

SELECT
    kind,
    name,
    any_value(times) AS times,
    CAST(sum(executions) AS BIGINT) AS executions,
    CAST(sum(device_time_ns) AS BIGINT) AS device_time_ns,
    CAST(any_value(host_time_ns) AS BIGINT) AS host_time_ns,
    arg_max(op, (device_time_ns, op)) AS main_op
FROM op_time
JOIN occurrences USING (kind, name)
GROUP BY kind, name
ORDER BY kind, any_value(first_occurrence)
