-- Device time by op: where the modelled device time of the window goes.
--
-- An execution belongs to the one op that launched it, so these are self times: device_time_ns of all rows adds up
-- to the device time of the window. `low_ns` and `high_ns` add up the ends of the model's 90 % intervals, which is
-- wider than the interval of the sum; host copies have none and count with their time.
--
-- op              aten name with overload, name of a compiled graph, or name of a copy
-- category        kernel, copy or collective
-- executions      launches
-- programs        distinct programs among them (0 for host copies)
-- device_time_ns  sum; mean_ns is per execution
-- share           of the device time of the window, 0..1
-- low_ns, high_ns the model's interval
-- flops           floating point operations; hbm_bytes: read from and written to HBM
-- bound           what limits most of its device time
-- confidence      weakest among its programs: validated, single-witness or unseen
WITH execution AS (
    SELECT
        coalesce(o.op, e.name) AS op,
        e.category,
        e.program_id,
        e.device_time_ns,
        coalesce(p.low_ns, e.device_time_ns) AS low_ns,
        coalesce(p.high_ns, e.device_time_ns) AS high_ns,
        coalesce(p.flops, 0) AS flops,
        coalesce(p.hbm_read_bytes + p.hbm_write_bytes, 0) AS hbm_bytes,
        coalesce(p.bound, 'unknown') AS bound,
        coalesce(list_position(['validated', 'single-witness', 'unseen'], p.confidence), 3) AS doubt
    FROM Execution AS e
    LEFT JOIN OpRecord AS o USING (op_id)
    LEFT JOIN Program AS p ON p.program_id = e.program_id
),

bound_time AS (
    SELECT op, category, bound, sum(device_time_ns) AS bound_ns
    FROM execution
    GROUP BY ALL
),

main_bound AS (
    SELECT op, category, arg_max(bound, (bound_ns, bound)) AS bound
    FROM bound_time
    GROUP BY ALL
)

SELECT
    op,
    category,
    count(*) AS executions,
    count(DISTINCT program_id) AS programs,
    CAST(sum(device_time_ns) AS BIGINT) AS device_time_ns,
    CAST(sum(device_time_ns) // count(*) AS BIGINT) AS mean_ns,
    coalesce(sum(device_time_ns) / nullif((SELECT sum(device_time_ns) FROM execution), 0), 0) AS share,
    CAST(sum(low_ns) AS BIGINT) AS low_ns,
    CAST(sum(high_ns) AS BIGINT) AS high_ns,
    CAST(sum(flops) AS BIGINT) AS flops,
    CAST(sum(hbm_bytes) AS BIGINT) AS hbm_bytes,
    any_value(main_bound.bound) AS bound,
    ['validated', 'single-witness', 'unseen'][max(doubt)] AS confidence
FROM execution
JOIN main_bound USING (op, category)
GROUP BY op, category
ORDER BY device_time_ns DESC, op, category
