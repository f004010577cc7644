-- quick.lua: the short way of a decision, taken by nearly all: one window, over a record that
-- holds nothing but one state, mostly one that is read and written in one piece. It keeps everything in
-- locals and answers as the long way does, with the same calls of Redis.
--
-- What is written mostly is longer than what was there, or as long: SETRANGE is half the cost of SET with PXAT.
--
-- Cost: GETRANGE, and SET or SETRANGE if it admits, with PEXPIREAT if the record is to live longer; five calls of
-- Redis to admit to a long log.

-- quick_of makes the short way of a kind, for a call at clock: a function of a question, a key, its record or ''
-- and the number of requests, that returns the reply of batch.lua, or nothing if
-- the record is of another form. It is made only by calls that go this way.
local function quick_of(kind, clock)
  if kind == SLIDE then
    local STATE = '>I5I6I2I2I3I3I3I6I6I6' -- from the header's limit to its end
    local FULL = '>c12' .. sub(STATE, 2)
    local LOG = 55                        -- index of the first entry
    -- The same of a log in one piece, whose ring begins at 0 and is full: read from last to its first entry's ms, and written.
    local SHORT = '>I6I2I2I6xxxI6I6I6I6'
    local RECORD = '>c12I5I6I7I6I6I6I6c0I6I6'

    -- long admits to a log that is too long for one piece, of which s is the beginning, if all
    -- requests are granted, a few entries at most have left the window, and there is a slot.
    local function long(q, key, s, requests)
      local window, units = q.window, requests * q.cost
      local _, last, before, during, first, n, cap, base, total, newest = unpack(STATE, s, 13)
      local now = clock > last and clock or last
      local oldest, gone = now - window, 0
      if units == 0 or newest < oldest then return end
      local at = LOG - 1 + first * ENTRY
      local block = call('GETRANGE', key, at, at + (cap - first < 16 and cap - first or 16) * ENTRY - 1)
      while gone * ENTRY < #block and unpack('>I6', block, gone * ENTRY + 1) < oldest do gone = gone + 1 end
      if gone * ENTRY == #block then return end
      if gone > 0 then base = unpack('>I6', block, gone * ENTRY - 5) end
      local used, ms = (total - base) % WRAP, now
      if q.limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
      if used + units > q.limit then return end
      first, n, total = (first + gone) % cap, n - gone, (total + units) % WRAP
      if newest >= ms then ms = newest elseif n < cap then n = n + 1 else return end
      if cap > 256 and n * 4 < cap then return end -- time to rebuild it shorter
      before, during = count_call(now, last, before, during)
      call('SETRANGE', key, '0', pack(FULL, q.shape, q.limit, now, before, during, first, n, cap, base, total, ms))
      call('SETRANGE', key, LOG - 1 + (first + n - 1) % cap * ENTRY, pack('>I6I6', ms, total))
      call('PEXPIREAT', key, text_of(ms + window))
      return one(requests, calls_at(clock, now, before, during), used, 0, ms, 0)
    end

    return function(q, key, s, requests)
      if #s == WHOLE then return sub(s, 1, 12) == q.shape and long(q, key, s, requests) end
      local limit, window, ask, live = q.limit, q.window, q.ask, s
      local now, last, before, during = clock, 0, 0, 0
      local n, base, total, newest, gone = 0, 0, 0, 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        local first
        last, before, during, n, base, total, newest, first = unpack(SHORT, s, 18)
        if last > now then now = last end
        local oldest = now - window
        if newest < oldest then
          gone, base = n, total
        elseif first < oldest then
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
      local granted = limit - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        local ms, was, length = now, newest, #s
        if limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
        n = n - gone
        if n > 0 and newest >= ms then -- one more in the newest entry
          ms, live = newest, sub(s, LOG + gone * ENTRY, -ENTRY - 1)
        else
          live = sub(s, LOG + gone * ENTRY)
          n = n + 1
        end
        if n > 80 then return end -- too long for one piece: nothing is written yet
        total, newest = (total + units) % WRAP, ms
        before, during = count_call(now, last, before, during)
        last = now
        s = pack(RECORD, q.shape, limit, last, (before * 65536 + during) * 16777216, n * 16777217, base, total,
          newest, live, ms, total)
        if #s < length or length == 0 then
          call('SET', key, s, 'PXAT', text_of(newest + window))
        else
          call('SETRANGE', key, '0', s)
          if newest > was then call('PEXPIREAT', key, text_of(newest + window)) end
        end
        gone = 0
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
      return one(granted, calls_at(clock, last, before, during), used, retry, newest, 0)
    end
  elseif kind == COUNTER then -- the classic pair: one sub-window
    -- From the header's limit to the end of the area I5I6I2I2I6I5I5: read from last on, and written.
    local STATE = '>I6I2I2xxxxxxI5I5'
    local RECORD = '>c12I5I6I4I6I5I5'

    return function(q, key, s, requests)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during = clock, 0, 0, 0
      local even, odd = 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        last, before, during, even, odd = unpack(STATE, s, 18)
        if last > now then now = last end
      end
      local e = now % window
      local k, was = (now - e) / window, (last - last % window) / window
      local current, previous, newest = 0, 0, 0
      if was >= k - 1 then
        newest = was % 2 == 0 and even or odd
        if was == k then
          current, previous = newest, was % 2 == 0 and odd or even
        else
          previous = newest
        end
      end
      local used = current
      if previous > 0 then used = current + (q.strict and previous or floor(previous * (window - e) / window)) end
      local granted = limit - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units = granted * q.cost
      if units > 0 then
        before, during = count_call(now, last, before, during)
        newest, last, current = current, now, current + units
        if k % 2 == 0 then even, odd = current, previous else even, odd = previous, current end
        local record = pack(RECORD, q.shape, limit, last, before * 65536 + during, even + odd, even, odd)
        if s ~= '' and was == k then -- it lives to the same ms
          call('SETRANGE', key, '0', record)
        else
          call('SET', key, record, 'PXAT', text_of((k + 2) * window - 1))
        end
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      local room, retry = limit - ask, 0
      if granted < requests and used + units > room then
        local lighter_at = window
        if current <= room and not q.strict then lighter_at = lighter(window, previous, room - current, e) end
        if lighter_at < window then
          retry = k * window + lighter_at
        elseif q.strict then
          retry = (current <= room and k + 1 or k + 2) * window
        else
          retry = (k + 1) * window + lighter(window, current, room, 0)
        end
      end
      return one(granted, calls_at(clock, last, before, during), used, retry, last, newest)
    end
  elseif kind == FIXED then
    -- From the header's limit to its end I5I6I2I2I6: read from last on, and written.
    local STATE = '>I6I2I2I6'
    local RECORD = '>c12I5I6I4I6'

    return function(q, key, s, requests)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during, used = clock, 0, 0, 0, 0
      if s ~= '' then
        if sub(s, 1, 12) ~= q.shape then return end
        last, before, during, used = unpack(STATE, s, 18)
        if last > now then now = last end
      end
      local ending = now - now % window + window
      local same = last - last % window + window == ending
      if not same then used = 0 end
      local granted = limit - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        before, during = count_call(now, last, before, during)
        last = now
        local record = pack(RECORD, q.shape, limit, last, before * 65536 + during, used + units)
        if s ~= '' and same then -- it lives to the same ms
          call('SETRANGE', key, '0', record)
        else
          call('SET', key, record, 'PXAT', text_of(ending - 1))
        end
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      if granted < requests and used + units + ask > limit then retry = ending end
      return one(granted, calls_at(clock, last, before, during), used, retry, last, 0)
    end
  end
end
