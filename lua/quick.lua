-- quick.lua: the short way of a decision, taken by nearly all: one window, over a record that
-- holds nothing but one state, mostly one that is read and written in one piece. It keeps everything in
-- locals and answers as the long way does, with the same calls of Redis.
--
-- What is written mostly is longer than what was there, or as long: SETRANGE is half the cost of SET with PXAT.
--
-- Cost: GETRANGE, and SET or SETRANGE if it admits, with PEXPIREAT if the record is to live longer; five calls of
-- Redis to admit to a long log.

-- What is read of a record and written, by kind.
local LOG_STATE = '>I5I6I2I2I3I3I3I6I6I6' -- of a log's header from limit to end
-- The same of a log in one piece, whose ring begins at 0 and is full: from last to its first entry's ms, and whole.
local LOG_READ = '>I6I2I2I6xxxI6I6I6I6'
local LOG_WRITTEN = '>c17I6I7I6I6I6I6c0I6I6'
local LOG = 55 -- index of the first entry
local COUNTER_READ = '>I6I2I2xxxxxxI5I5' -- from last to the end of the area
local COUNTER_WRITTEN = '>c17I6I4I6I5I5'
local FIXED_READ = '>I6I2I2I6' -- from last to the header's end
local FIXED_WRITTEN = '>c17I6I4I6'

-- quick_of makes the short way of a kind, for a call at clock: a function of a question, a key, its record or ''
-- and the number of requests, that returns the reply of batch.lua, or nothing if
-- the record is of another form. It is made only by calls that go this way.
--
-- noted.lua asks it about records that begin with a note: bound stands in the limit's place, offset is added to what is
-- used, and form and status make the reply. The note stays as it is, with what it says of the key's life, and
-- nothing is done if not all requests are granted.
local function quick_of(kind, clock)
  if kind == SLIDE then
    -- long admits to a log that is too long for one piece, of which s is the beginning, if all
    -- requests are granted, a few entries at most have left the window, and there is a slot.
    local function long(q, key, s, requests, bound, offset, form, status)
      local window, units = q.window, requests * q.cost
      local log = bound and LOG + NOTE or LOG
      local _, last, before, during, first, n, cap, base, total, newest = unpack(LOG_STATE, s, bound and 88 or 13)
      local now = clock > last and clock or last
      local oldest, gone = now - window, 0
      if units == 0 or newest < oldest or q.part and last > clock then return end
      local at = log - 1 + first * ENTRY
      local block = call('GETRANGE', key, at, at + (cap - first < 16 and cap - first or 16) * ENTRY - 1)
      while gone * ENTRY < #block and unpack('>I6', block, gone * ENTRY + 1) < oldest do gone = gone + 1 end
      if gone * ENTRY == #block then return end
      if gone > 0 then base = unpack('>I6', block, gone * ENTRY - 5) end
      local used, ms = (total - base) % WRAP, now
      if q.limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
      if used + units > (bound or q.limit) then return end
      first, n, total = (first + gone) % cap, n - gone, (total + units) % WRAP
      if newest >= ms then ms = newest elseif n < cap then n = n + 1 else return end
      if cap > 256 and n * 4 < cap then return end -- time to rebuild it shorter
      before, during = count_call(now, last, before, during)
      local head = pack(LOG_STATE, q.limit, now, before, during, first, n, cap, base, total, ms)
      if bound then
        call('SETRANGE', key, '87', head)
      else
        call('SETRANGE', key, '0', q.shape .. head)
      end
      call('SETRANGE', key, log - 1 + (first + n - 1) % cap * ENTRY, pack('>I6I6', ms, total))
      if not bound or ms + window > unpack('>I6', s, 31) then call('PEXPIREAT', key, text_of(ms + window)) end
      local calls = calls_at(clock, now, before, during)
      if bound then return pack(form, status, requests * 16777216 + calls, used + offset, ms, 0) end
      return one(requests, calls, used, 0, ms, 0)
    end

    return function(q, key, s, requests, bound, offset, form, status)
      if s ~= '' and not bound and sub(s, 1, 12) ~= q.shape then return end
      if #s == WHOLE then return long(q, key, s, requests, bound, offset, form, status) end
      local limit, window, ask, live = q.limit, q.window, q.ask, s
      local log = bound and LOG + NOTE or LOG
      local now, last, before, during = clock, 0, 0, 0
      local n, base, total, newest, gone = 0, 0, 0, 0, 0
      if s ~= '' then
        local first
        last, before, during, n, base, total, newest, first = unpack(LOG_READ, s, bound and 93 or 18)
        if last > now then
          if q.part then return end
          now = last
        end
        local oldest = now - window
        if newest < oldest then
          gone, base = n, total
        elseif first < oldest then
          local low, high = 1, n - 1 -- the newest entry counts
          while low < high do
            local mid = floor((low + high) / 2)
            if unpack('>I6', s, log + mid * ENTRY) < oldest then low = mid + 1 else high = mid end
          end
          gone = low
          base = unpack('>I6', s, log + gone * ENTRY - 6)
        end
      end
      local used = (total - base) % WRAP
      local granted = (bound or limit) - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      if bound and granted < requests then return end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        local ms, was, length, stop = now, newest, #s, log + n * ENTRY - 1
        if limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
        n = n - gone
        if n > 0 and newest >= ms then -- one more in the newest entry
          ms, live = newest, sub(s, log + gone * ENTRY, stop - ENTRY)
        else
          live = sub(s, log + gone * ENTRY, stop)
          n = n + 1
        end
        -- Too long for one piece: nothing is written yet.
        if log + n * ENTRY + (bound and length - stop or 0) > WHOLE then return end
        total, newest = (total + units) % WRAP, ms
        before, during = count_call(now, last, before, during)
        last = now
        if bound then
          local expires = newest + window
          local record = pack('>I5I6I7I6I6I6I6c0I6I6c0', limit, last, (before * 65536 + during) * 16777216, n * 16777217,
            base, total, newest, live, ms, total, sub(s, stop + 1))
          if #record + 87 < length then
            call('SET', key, sub(s, 1, 87) .. record, 'KEEPTTL')
          else
            call('SETRANGE', key, '87', record)
          end
          if newest > was and expires > unpack('>I6', s, 31) then call('PEXPIREAT', key, text_of(expires)) end
          return pack(form, status, granted * 16777216 + calls_at(clock, last, before, during), used + offset, newest, 0)
        end
        s = pack(LOG_WRITTEN, q.start, last, (before * 65536 + during) * 16777216, n * 16777217, base, total,
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
          if (unpack('>I6', s, log + mid * ENTRY + 6) - base) % WRAP < over then low = mid + 1 else high = mid end
        end
        retry = unpack('>I6', s, log + low * ENTRY) + window + 1
      end
      return one(granted, calls_at(clock, last, before, during), used, retry, newest, 0)
    end
  elseif kind == COUNTER then -- the classic pair: one sub-window
    return function(q, key, s, requests, bound, offset, form, status)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during = clock, 0, 0, 0
      local even, odd = 0, 0
      if s ~= '' then
        if not bound and sub(s, 1, 12) ~= q.shape then return end
        last, before, during, even, odd = unpack(COUNTER_READ, s, bound and 93 or 18)
        if last > now then
          if q.part then return end
          now = last
        end
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
      local granted = (bound or limit) - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      if bound and granted < requests then return end
      local units = granted * q.cost
      if units > 0 then
        before, during = count_call(now, last, before, during)
        newest, last, current = current, now, current + units
        if k % 2 == 0 then even, odd = current, previous else even, odd = previous, current end
        local expires = (k + 2) * window - 1
        if bound then
          call('SETRANGE', key, '87', pack('>I5I6I4I6I5I5', limit, last, before * 65536 + during, even + odd, even, odd))
          if was ~= k and expires > unpack('>I6', s, 31) then call('PEXPIREAT', key, text_of(expires)) end
          return pack(form, status, granted * 16777216 + calls_at(clock, last, before, during), used + offset, last, newest)
        end
        local record = pack(COUNTER_WRITTEN, q.start, last, before * 65536 + during, even + odd, even, odd)
        if s ~= '' and was == k then -- it lives to the same ms
          call('SETRANGE', key, '0', record)
        else
          call('SET', key, record, 'PXAT', text_of(expires))
        end
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      local most, retry = limit - ask, 0
      if granted < requests and used + units > most then
        local lighter_at = window
        if current <= most and not q.strict then lighter_at = lighter(window, previous, most - current, e) end
        if lighter_at < window then
          retry = k * window + lighter_at
        elseif q.strict then
          retry = (current <= most and k + 1 or k + 2) * window
        else
          retry = (k + 1) * window + lighter(window, current, most, 0)
        end
      end
      return one(granted, calls_at(clock, last, before, during), used, retry, last, newest)
    end
  elseif kind == FIXED then
    return function(q, key, s, requests, bound, offset, form, status)
      local limit, window, ask = q.limit, q.window, q.ask
      local now, last, before, during, used = clock, 0, 0, 0, 0
      if s ~= '' then
        if not bound and sub(s, 1, 12) ~= q.shape then return end
        last, before, during, used = unpack(FIXED_READ, s, bound and 93 or 18)
        if last > now then
          if q.part then return end
          now = last
        end
      end
      local next = now - now % window + window
      local same = last - last % window + window == next
      if not same then used = 0 end
      local granted = (bound or limit) - used
      granted = (granted - granted % ask) / ask
      if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
      if bound and granted < requests then return end
      local units, retry = granted * q.cost, 0
      if units > 0 then
        before, during = count_call(now, last, before, during)
        last = now
        if bound then
          call('SETRANGE', key, '87', pack('>I5I6I4I6', limit, last, before * 65536 + during, used + units))
          if not same and next - 1 > unpack('>I6', s, 31) then call('PEXPIREAT', key, text_of(next - 1)) end
          return pack(form, status, granted * 16777216 + calls_at(clock, last, before, during), used + offset, last, 0)
        end
        local record = pack(FIXED_WRITTEN, q.start, last, before * 65536 + during, used + units)
        if s ~= '' and same then -- it lives to the same ms
          call('SETRANGE', key, '0', record)
        else
          call('SET', key, record, 'PXAT', text_of(next - 1))
        end
      elseif q.cost == 0 and granted > 0 then
        granted = requests
      end
      if granted < requests and used + units + ask > limit then retry = next end
      return one(granted, calls_at(clock, last, before, during), used, retry, last, 0)
    end
  end
end
