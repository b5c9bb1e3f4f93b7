#!/bin/sh
# The power of a whole server, as its BMC tells it each second: kept in a file that energy-trace reads, or written down as a log.
#
#   sudo examples/bmc-power.sh /run/bmc-watts &
#   REDFISH=https://BMC/redfish/v1/Chassis/1/Power examples/bmc-power.sh /run/bmc-watts &
#   sudo energy-trace record --power auto --power bmc:/run/bmc-watts -- PROGRAM
#
# The first asks ipmitool, which needs root or access to /dev/ipmi0, the second curl, with user and password from ~/.netrc. The report
# then says how much of the server's energy the counters of CPU, memory and GPUs explain, and has a row for the rest. Without a file it
# prints a log, for a server that cannot be reached while it is measured: --power replay:LOG.
watts() {
    if [ -n "$REDFISH" ]; then
        # Power has PowerConsumedWatts, EnvironmentMetrics a Reading in PowerWatts.
        curl --silent --netrc --max-time 5 "$REDFISH" | tr -d '\n ' |
            grep -oE '"(PowerConsumedWatts"|PowerWatts":[{][^}]*"Reading"):[0-9.]+' | head -n 1 | grep -oE '[0-9.]+$'
    else
        ipmitool dcmi power reading 2>/dev/null | awk '/Instantaneous power reading/ { print $4 }'
    fi
}
# Whoever reads the file sees a whole number, the old one or the new one.
keep() {
    echo "$2" > "$1.new" && mv "$1.new" "$1"
}
[ -n "$1" ] || echo unix_s,wall_w
while sleep 1; do
    watts=$(watts)
    # A BMC that does not answer is a second without a row; of a file the age tells.
    [ -n "$watts" ] || continue
    if [ -n "$1" ]; then keep "$1" "$watts"; else echo "$(date +%s.%3N),$watts"; fi
done
