-- First-use loads: programs that were loaded onto a core inside the window, a cost that warm-up should have taken.
--
-- exec_id, device, op  execution that waited for the load
-- program          key of the program
-- start_ns         start of that execution, virtual device clock
-- load_ns          length of its nrt_load, 0 when the capture has no runtime events
WITH load AS (
    SELECT flow_id, sum(duration_ns) AS load_ns
    FROM (SELECT unnest(flow_id) AS flow_id, duration_ns FROM SystemProfileEvents WHERE name = 'nrt_load')
    GROUP BY flow_id
)

SELECT
    e.exec_id,
    e.device,
    coalesce(o.op, e.name) AS op,
    p.key AS program,
    e.start_ns,
    CAST(coalesce(load.load_ns, 0) AS BIGINT) AS load_ns
FROM Execution AS e
LEFT JOIN OpRecord AS o USING (op_id)
LEFT JOIN Program AS p ON p.program_id = e.program_id
LEFT JOIN load ON load.flow_id = CAST(e.flow_id AS VARCHAR)
WHERE e.first_use
ORDER BY load_ns DESC, e.exec_id
