-- quick.lua: the short way of a decision, taken by nearly all: one window, over a record that
-- holds nothing but one state, mostly one that is read and written in one piece. It keeps everything in
-- locals and answers as the long way does, with the same calls of Redis.
--
-- Cost: GETRANGE, and SET if it admits; five calls of Redis to admit to a long log.

-- quick_of makes the short way of a kind, for a call at clock: a function of a question, a key, its record or ''
-- and the number of requests, that returns the reply of batch.lua, or nothing if
-- the record is of another form. It is made only by calls that go this way.
local function quick_of(kind, clock)
  if kind == SLIDE then
    local STATE = '>I5I6I2I2I3I3I3I6I6I6' -- from the header's limit to its end
    local FULL = '>c12' .. sub(STATE, 2)
    local LOG = 55                        -- index of the first entry

    -- long admits to a log that is too long for one piece, of which s is the beginning, if all
    -- requests are granted, a few entries at most have left the window, and there is a slot.
    local function long(q, key, s, requests)
      local window, units = q.window, requests * q.cost
      local _, last, before, during, first, n, cap, base, total, newest = unpack(STATE, s, 13)
      local now = max(clock, last)
      local oldest, gone = now - window, 0
      if units == 0 or newest < oldest then return end
      local at = LOG - 1 + first * ENTRY
      local block = call('GETRANGE', key, at, at + min(16, cap - first) * ENTRY - 1)
      while gone * ENTRY < #block and unpack('>I6', block, gone * ENTRY + 1) < oldest do gone = gone + 1 end
      if gone * ENTRY == #block then return end
      if gone > 0 then base = unpack('>I6', block, gone * ENTRY - 5) end
      local used, ms = (total - base) % WRAP, now
      if q.limit > 65536 then ms = round(now, window) end
      if used + units > q.limit then return end
      first, n, total = (first + gone) % cap, n - gone, (total + units) % WRAP
      if newest >= ms then ms = newest elseif n < cap then n = n + 1 else return end
      if cap > 256 and n * 4 < cap then return end -- time to rebuild it shorter
      before, during = count_call(now, last, before, during)
      call('SETRANGE', key, '0', pack(FULL, q.shape, q.limit, now, before, during, first, n, cap, base, total, ms))
      call('SETRANGE', key, LOG - 1 + (first + n - 1) % cap * ENTRY, pack('>I6I6', ms, total))
      call('PEXPIREAT', key, text_of(ms + window))
      return pack(ONE, 0, requests, calls_at(clock, now, before, during), used, 0, ms, 0)
    end

    return function(q, key, s, requests)
      if #s == WHOLE then return sub(s, 1, 12) == q.shape and long(q, key, s, requests) end
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during = clock, 0, 0, 0
      local n, base, total, newest, gone = 0, 0, 0, 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        local _
        _, last, before, during, _, n, _, base, total, newest = unpack(STATE, s, 13)
        if last > now then now = last end
        local oldest = now - window
        if newest < oldest then
          gone, base = n, total
        elseif unpack('>I6', s, LOG) < oldest then
          local low, high = 1, n - 1 -- the newest entry counts
          while low < high do
            local mid = floor((low + high) / 2)
            if unpack('>I6', s, LOG + mid * ENTRY) < oldest then low = mid + 1 else high = mid end
          end
          gone = low
          base = unpack('>I6', s, LOG + gone * ENTRY - 6)
        end
      end
      local used = (total - base) % WRAP
      local granted = floor((limit - used) / ask)
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        local ms = now
        if limit > 65536 then ms = round(now, window) end
        if gone < n and newest >= ms then -- one more in the newest entry
          ms, s = newest, sub(s, LOG + gone * ENTRY, -ENTRY - 1)
          n = n - gone
        else
          s = sub(s, LOG + gone * ENTRY)
          n = n - gone + 1
        end
        if n > 80 then return end -- too long for one piece: nothing is written yet
        total, newest = (total + units) % WRAP, ms
        before, during = count_call(now, last, before, during)
        last, gone = now, 0
        s = pack(FULL, q.shape, limit, last, before, during, 0, n, n, base, total, newest)
          .. s .. pack('>I6I6', ms, total)
        call('SET', key, s, 'PXAT', text_of(newest + window))
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      local over = used + units + ask - limit
      if granted < requests and over > 0 then
        local low, high = gone, n - 1
        while low < high do
          local mid = floor((low + high) / 2)
          if (unpack('>I6', s, LOG + mid * ENTRY + 6) - base) % WRAP < over then low = mid + 1 else high = mid end
        end
        retry = unpack('>I6', s, LOG + low * ENTRY) + window + 1
      end
      return pack(ONE, 0, granted, calls_at(clock, last, before, during), used, retry, newest, 0)
    end
  elseif kind == COUNTER then -- the classic pair: one sub-window
    local STATE = '>I5I6I2I2I6I5I5' -- from the header's limit to the end of the area
    local FULL = '>c12' .. sub(STATE, 2)

    return function(q, key, s, requests)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during = clock, 0, 0, 0
      local even, odd = 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        local _
        _, last, before, during, _, even, odd = unpack(STATE, s, 13)
        if last > now then now = last end
      end
      local k, was = floor(now / window), floor(last / window)
      local current, previous, newest = 0, 0, 0
      if was >= k - 1 then
        newest = was % 2 == 0 and even or odd
        if was == k then
          current, previous = newest, was % 2 == 0 and odd or even
        else
          previous = newest
        end
      end
      local used = (q.strict and previous or floor(previous * (window - now % window) / window)) + current
      local granted = floor((limit - used) / ask)
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units = granted * q.cost
      if units > 0 then
        newest, was = current, k
        before, during = count_call(now, last, before, during)
        last, current = now, current + units
        if k % 2 == 0 then even, odd = current, previous else even, odd = previous, current end
        s = pack(FULL, q.shape, limit, last, before, during, even + odd, even, odd)
        call('SET', key, s, 'PXAT', text_of((k + 2) * window - 1))
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      local room, retry = limit - ask, 0
      if granted < requests and used + units > room then
        local e = window
        if current <= room and not q.strict then e = lighter(window, previous, room - current, now % window) end
        if e < window then
          retry = k * window + e
        elseif q.strict then
          retry = (current <= room and k + 1 or k + 2) * window
        else
          retry = (k + 1) * window + lighter(window, current, room, 0)
        end
      end
      return pack(ONE, 0, granted, calls_at(clock, last, before, during), used, retry, last, newest)
    end
  elseif kind == FIXED then
    local STATE = '>I5I6I2I2I6' -- from the header's limit to its end
    local FULL = '>c12' .. sub(STATE, 2)

    return function(q, key, s, requests)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during, used = clock, 0, 0, 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        local _
        _, last, before, during, used = unpack(STATE, s, 13)
        if last > now then now = last end
      end
      local k = floor(now / window)
      if k > floor(last / window) then used = 0 end
      local granted = floor((limit - used) / ask)
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        before, during = count_call(now, last, before, during)
        last = now
        call('SET', key, pack(FULL, q.shape, limit, last, before, during, used + units),
          'PXAT', text_of((k + 1) * window - 1))
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      if granted < requests and used + units + ask > limit then retry = (k + 1) * window end
      return pack(ONE, 0, granted, calls_at(clock, last, before, during), used, retry, last, 0)
    end
  end
end
