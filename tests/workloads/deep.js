// One chain of calls, whose length is known, and one that computes at its end: deep.js SECONDS. The time is CPU time.
function compute(rounds) {
    let sum = 0;
    for (let i = 0; i < rounds; i++) sum = (sum * 31 + i) | 0;
    return sum;
}
function down(depth, rounds) {
    return depth === 0 ? compute(rounds) : 1 + down(depth - 1, rounds);
}
const seconds = () => process.cpuUsage().user / 1e6;
const end = seconds() + parseFloat(process.argv[2]);
let sum = 0;
while (seconds() < end) sum += down(30, 200000);
console.log(sum);
