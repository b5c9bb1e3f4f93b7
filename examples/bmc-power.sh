#!/bin/sh
# The power of a whole server, as its BMC tells it each second: kept in a file that energy-trace reads, or written down as a log.
#
#   sudo examples/bmc-power.sh /run/bmc-watts &
#   REDFISH=https://BMC/redfish/v1/Chassis/1/Power examples/bmc-power.sh /run/bmc-watts &
#   sudo energy-trace record --power auto --power bmc:/run/bmc-watts -- PROGRAM
#
# The first asks ipmitool, which needs root or access to /dev/ipmi0, or IPMI='-I lanplus -H BMC -U USER -f FILE' to ask by network. A
# BMC that knows no `dcmi power reading` may have a sensor of it: SENSOR='Pwr Consumption' (`ipmitool sensor` lists them). The second
# asks curl, with user and password from ~/.netrc and the BMC's certificate from ~/.curlrc. The report then says how much of the
# server's energy the counters of CPU, memory and GPUs explain, and has a row for the rest. Without a file it prints a log, for a
# server that cannot be reached while it is measured: --power replay:LOG.
watts() {
    if [ -n "$REDFISH" ]; then
        # Power has PowerConsumedWatts, EnvironmentMetrics a Reading in PowerWatts; some write numbers as text.
        curl --silent --show-error --fail --location --netrc --max-time 5 "$REDFISH" | tr -d '\n ' |
            grep -oE '"(PowerConsumedWatts"|PowerWatts":[{][^}]*"Reading"):"?[0-9.]+' | head -n 1 | grep -oE '[0-9.]+$'
    elif [ -n "$SENSOR" ]; then
        ipmitool $IPMI sensor reading "$SENSOR" | awk -F '|' '{ print $2 + 0 }'
    else
        ipmitool $IPMI dcmi power reading | awk '/Instantaneous power reading/ { print $4 }'
    fi
}
# Whoever reads the file sees a whole number, the old one or the new one.
keep() {
    echo "$2" > "$1.new" && mv "$1.new" "$1"
}
[ -n "$1" ] || echo unix_s,wall_w
while sleep 1; do
    watts=$(watts)
    if [ -z "$watts" ]; then
        # A second without a row; of a file the age tells. It is said once, with the tool's own words.
        [ -n "$said" ] || echo "bmc-power.sh: the BMC told no power: asked again each second" >&2
        said=yes
        exec 2> /dev/null
    elif [ -n "$1" ]; then
        keep "$1" "$watts"
    else
        echo "$(date +%s.%3N),$watts"
    fi
done
