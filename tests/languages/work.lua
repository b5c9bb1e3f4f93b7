-- Calls of calls, sorting and text for so many seconds.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function sorting()
  local v = {}
  for i = 0, 19999 do v[#v + 1] = i * 7919 % 10007 end
  table.sort(v, function(a, b) return a > b end)
  return v[9]
end
local function texts() local t = {} for i = 0, 499 do t[#t + 1] = tostring(i) end return #table.concat(t, ",") end
local finish, sum = os.clock() + tonumber(arg[1]), 0
while os.clock() < finish do sum = sum + fib(22) + sorting() + texts() end
print(sum)
