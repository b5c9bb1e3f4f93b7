// Calls of calls, sorting and text for so many seconds.
const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);
function sorting() {
    const v = Array.from({ length: 20000 }, (_, i) => i * 7919 % 10007);
    v.sort((a, b) => b - a);
    return v[9];
}
function texts() { let t = ""; for (let i = 0; i < 500; i++) t += `${i},`; return JSON.stringify(t.split(",")).length; }
const end = Date.now() + 1000 * parseFloat(process.argv[2]);
let sum = 0;
while (Date.now() < end) sum += fib(22) + sorting() + texts();
console.log(sum);
