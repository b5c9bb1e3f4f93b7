#!/usr/bin/env bash
# Records COMMAND in this checkout and, if BASE names one, in that of the base by turns; writes the summary and ends with the median run's status.
set -euo pipefail
: "${COMMAND:?a command}" "${PREPARE:=}" "${BUDGET:=}" "${BUDGET_CALLS:=}" "${RUNS:=5}" "${OPTIONS:=}" "${BASE:=}"
: "${GITHUB_OUTPUT:=/dev/null}" "${GITHUB_STEP_SUMMARY:=/dev/stdout}"

tool=$(command -v energy-trace) || { echo "::error::energy-trace is not installed; see the input archive"; exit 2; }
[[ $RUNS =~ ^[1-9][0-9]*$ ]] || { echo "::error::runs is '$RUNS', not a number"; exit 2; }
head=$PWD
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/energy-budget.XXXXXX")
echo "folder=$folder" >>"$GITHUB_OUTPUT"
# Under sudo the command runs as the user of the job all the same.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -E)
read -ra options <<<"$OPTIONS"
budgets=()
[ -z "$BUDGET" ] || budgets+=(--budget "$BUDGET")
while IFS= read -r call; do
    [ -z "$call" ] || budgets+=(--budget-call "$call")
done <<<"$BUDGET_CALLS"

# record SIDE CHECKOUT RUN [BUDGETS…]: its exit status.
record() {
    local out=$folder/$1-$3 status=0
    (cd "$2" && "${as_root[@]}" env "PATH=$PATH" "$tool" record --no-svg -o "$out.data" "${@:4}" "${options[@]}" -- \
        bash -c "$COMMAND") >"$out.out" 2>"$out.err" || status=$?
    case $status in
    0 | 121 | 122 | 123) ;;
    *)
        echo "::error::run $3 of $1 ended with $status"
        cat "$out.out" "$out.err"
        exit "$status"
        ;;
    esac
    return "$status"
}

for checkout in ${BASE:+"$BASE"} "$head"; do
    [ -z "$PREPARE" ] || (cd "$checkout" && bash -c "$PREPARE")
done
statuses=()
for ((run = 1; run <= RUNS; run++)); do
    echo "run $run of $RUNS"
    [ -z "$BASE" ] || record base "$BASE" "$run"
    status=0
    record head "$head" "$run" "${budgets[@]}" || status=$?
    statuses+=("$status $run")
done

# The median by status: budgets are neither exceeded nor kept by one odd run.
read -r status run < <(printf '%s\n' "${statuses[@]}" | sort -n | sed -n "$(((RUNS + 1) / 2))p")
{
    "$tool" report --format markdown "${budgets[@]}" "$folder/head-$run.data" 2>/dev/null || true
    if [ -n "$BASE" ]; then
        echo
        echo "### Before and after, joules of a run"
        echo
        echo '```'
        "$tool" diff --color never "$folder"/base-*.data --vs "$folder"/head-*.data
        echo '```'
    fi
} >"$folder/summary.md"
cat "$folder/summary.md" >>"$GITHUB_STEP_SUMMARY"
echo "status=$status" >>"$GITHUB_OUTPUT"
case $status in
121) echo "::error::a budget has a name that no sample shows" ;;
122) echo "::error::an energy budget was exceeded" ;;
123) echo "::error::an energy budget cannot be judged: a counter says too little of the run, or it leaves open whose energy it was" ;;
esac
exit "$status"
