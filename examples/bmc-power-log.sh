#!/bin/sh
# The power of a whole server, as its BMC tells it each second, in the form that `--power replay:FILE` reads.
#
#   sudo examples/bmc-power-log.sh > bmc.csv &
#   REDFISH=https://BMC/redfish/v1/Chassis/1/Power examples/bmc-power-log.sh > bmc.csv &
#   sleep 5; sudo energy-trace record --power auto --power replay:bmc.csv -- PROGRAM
#
# The first asks ipmitool, which needs root, the second curl, with user and password from ~/.netrc. The report then says
# how much of the server's energy the counters of CPU, memory and GPUs explain, and has a row for the rest.
watts() {
    if [ -n "$REDFISH" ]; then
        # Power has PowerConsumedWatts, EnvironmentMetrics a Reading in PowerWatts.
        curl --silent --netrc --max-time 5 "$REDFISH" | tr -d '\n ' |
            grep -oE '"(PowerConsumedWatts"|PowerWatts":[{][^}]*"Reading"):[0-9.]+' | head -n 1 | grep -oE '[0-9.]+$'
    else
        ipmitool dcmi power reading 2>/dev/null | awk '/Instantaneous power reading/ { print $4 }'
    fi
}
echo unix_s,wall_w
while sleep 1; do
    watts=$(watts)
    # A BMC that does not answer is a second without a row.
    [ -z "$watts" ] || echo "$(date +%s.%3N),$watts"
done
