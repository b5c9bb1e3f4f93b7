#!/bin/sh
# The power of a whole server, as its BMC tells it each second, in the form that `--power replay:FILE` reads; needs ipmitool and root.
#
#   sudo examples/bmc-power-log.sh > bmc.csv &
#   sleep 5; sudo energy-trace record --power auto --power replay:bmc.csv -- PROGRAM
#
# The report then says how much of the server's energy the counters of CPU, memory and GPUs explain, and has a row for the rest.
echo unix_s,wall_w
while sleep 1; do
    watts=$(ipmitool dcmi power reading 2>/dev/null | awk '/Instantaneous power reading/ { print $4 }')
    # A BMC that does not answer is a second without a row.
    [ -z "$watts" ] || echo "$(date +%s.%3N),$watts"
done
