-- quick.lua: the short way of a decision, taken by nearly all: one window, over a record that holds nothing
-- but one state, mostly one that is read and written in one piece, or a note before it. It is a part of
-- decide.lua, keeps everything in locals, and answers as the long way does, which takes over from a break: nothing has
-- been written then.
--
-- What is written mostly is longer than what was there, or as long: SETRANGE is half the cost of SET with PXAT.
-- math.floor is a call of C, ten times the remainder's cost.
--
-- Cost: GETRANGE, and SET or SETRANGE if it admits, with PEXPIREAT if the record is to live longer; five calls of
-- Redis to admit to a long log.

-- What is read of a record, from last on, and written, by kind; and written after a note, from limit on.
-- A log in one piece has a ring that begins at 0 and is full: read up to its first entry's ms.
local LOG_READ = '>I6I2I2I6xxxI6I6I6I6'
local LOG_WRITTEN = '>c17I6I7I6I6I6I6c0I6I6'
local LOG_NOTED = '>I5I6I7I6I6I6I6c0I6I6c0'
local COUNTER_READ = '>I6I2I2xxxxxxI5I5'
local COUNTER_WRITTEN = '>c17I6I4I6I5I5'
local COUNTER_NOTED = '>I5I6I4I6I5I5'
local FIXED_READ = '>I6I2I2I6'
local FIXED_WRITTEN = '>c17I6I4I6'
local FIXED_NOTED = '>I5I6I4I6'

repeat
  local at, begin = 18, 55 -- indices of last, and of a log's first entry
  -- Of a note: in the limit's place, added to what is used, and of what the reply is made.
  local bound, offset, form, status
  if part or s ~= '' and sub(s, 1, 12) ~= shape then
    include 'noted'
  end
  local now, last, before, during = clock, 0, 0, 0
  local used, granted, retry = 0, requests, 0
  local mark, newest = 0, 0 -- the reply's end: last and newest, see slide.lua

  if kind == SLIDE and #s == WHOLE then
    include 'quick_long'
  else
    -- What counts.
    local n, base, total, gone = 0, 0, 0, 0 -- of a log; mark is its newest entry's ms
    local even, odd, k, e, current, previous = 0, 0, 0, 0, 0, 0 -- of a counter, the classic pair
    local ending -- of the record's life, in ms
    if kind == SLIDE then
      if s ~= '' then
        local first
        last, before, during, n, base, total, mark, first = unpack(LOG_READ, s, at)
        if last > now then now = last end
        local oldest = now - window
        if mark < oldest then
          gone, base = n, total
        elseif first < oldest then
          local low, high = 1, n - 1 -- the newest entry counts
          while low < high do
            local mid = (low + high - (low + high) % 2) / 2
            if unpack('>I6', s, begin + mid * ENTRY) < oldest then low = mid + 1 else high = mid end
          end
          gone = low
          base = unpack('>I6', s, begin + gone * ENTRY - 6)
        end
      end
      used, ending = (total - base) % WRAP, mark + window
    elseif kind == COUNTER then
      if s ~= '' then
        last, before, during, even, odd = unpack(COUNTER_READ, s, at)
        if last > now then now = last end
      end
      e = now % window
      k = (now - e) / window
      local was = (last - last % window) / window
      if was >= k - 1 then
        newest = was % 2 == 0 and even or odd
        if was == k then
          used, previous = newest, was % 2 == 0 and odd or even
        else
          previous = newest
        end
      end
      current = used
      if previous > 0 then used = used + (strict and previous or floor(previous * (window - e) / window)) end
      ending = (was + 2) * window - 1
    else
      if s ~= '' then
        last, before, during, used = unpack(FIXED_READ, s, at)
        if last > now then now = last end
      end
      ending = last - last % window + window - 1
      if now > ending then used = 0 end
    end
    if part and last > clock then break end

    -- What is granted.
    granted = (bound or limit) - used
    granted = (granted - granted % ask) / ask
    if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
    if bound and granted < requests then break end
    local units, live = granted * cost, s
    if units > 0 then
      -- What is written.
      local record, expires
      before, during = count_call(now, last, before, during)
      last = now
      if kind == SLIDE then
        local ms, stop = now, begin + n * ENTRY - 1
        if limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
        n = n - gone
        if n > 0 and mark >= ms then -- one more in the newest entry
          ms, live = mark, sub(s, begin + gone * ENTRY, stop - ENTRY)
        else
          n, live = n + 1, sub(s, begin + gone * ENTRY, stop)
        end
        -- Too long for one piece: nothing is written yet.
        if begin + n * ENTRY + (bound and #s - stop or 0) > WHOLE then break end
        total, mark, expires, gone = (total + units) % WRAP, ms, ms + window, 0
        if bound then
          record = pack(LOG_NOTED, limit, last, (before * 65536 + during) * 16777216, n * 16777217, base, total, mark,
            live, ms, total, sub(s, stop + 1))
        else
          record = pack(LOG_WRITTEN, named, last, (before * 65536 + during) * 16777216, n * 16777217, base, total, mark,
            live, ms, total)
          live = record
        end
      elseif kind == COUNTER then
        newest, current, expires = current, current + units, (k + 2) * window - 1
        if k % 2 == 0 then even, odd = current, previous else even, odd = previous, current end
        if bound then
          record = pack(COUNTER_NOTED, limit, last, before * 65536 + during, even + odd, even, odd)
        else
          record = pack(COUNTER_WRITTEN, named, last, before * 65536 + during, even + odd, even, odd)
        end
      else
        expires = now - now % window + window - 1
        if bound then
          record = pack(FIXED_NOTED, limit, last, before * 65536 + during, used + units)
        else
          record = pack(FIXED_WRITTEN, named, last, before * 65536 + during, used + units)
        end
      end

      local whole = s == '' or not bound and #record < #s
      if (whole or expires > ending) and expires ~= converted then
        converted, expiry = expires, format('%d', expires)
      end
      if whole then
        call('SET', key, record, 'PXAT', expiry)
      elseif not bound then
        call('SETRANGE', key, '0', record)
        if expires > ending then call('PEXPIREAT', key, expiry) end
      else
        if kind == SLIDE and #record + 87 < #s then
          call('SET', key, sub(s, 1, 87) .. record, 'KEEPTTL')
        else
          call('SETRANGE', key, '87', record)
        end
        if expires > ending and expires > unpack('>I6', s, 31) then call('PEXPIREAT', key, expiry) end
      end
    elseif cost == 0 and granted > 0 then
      granted = requests
    end

    -- When there is room for one more.
    local over = used + units + ask - limit
    if granted < requests and over > 0 then
      if kind == SLIDE then
        local low, high = gone, n - 1
        while low < high do
          local mid = (low + high - (low + high) % 2) / 2
          if (unpack('>I6', live, begin + mid * ENTRY + 6) - base) % WRAP < over then low = mid + 1 else high = mid end
        end
        retry = unpack('>I6', live, begin + low * ENTRY) + window + 1
      elseif kind == COUNTER then
        include 'lighter'
        local most, lighter_at = limit - ask, window
        if current <= most and not strict then lighter_at = lighter(window, previous, most - current, e) end
        if lighter_at < window then
          retry = k * window + lighter_at
        elseif strict then
          retry = (current <= most and k + 1 or k + 2) * window
        else
          retry = (k + 1) * window + lighter(window, current, most, 0)
        end
      else
        retry = now - now % window + window
      end
    end
    if kind ~= SLIDE then mark = last end
  end

  local calls = granted * 16777216 + calls_at(clock, last, before, during)
  if bound then
    reply = pack(form, status, calls, used + offset, mark, newest)
  elseif retry == 0 then
    reply = pack('>I8I6I12I6', calls, used, mark, newest)
  else
    reply = pack('>I8I6I6I6I6', calls, used, retry, mark, newest)
  end
until true
