-- windows.lua: the short way of a question with several windows of one kind, when all requests are granted and
-- the record holds the windows' states in the question's order and nothing else. It answers and stores as the long
-- way does, and leaves the rest to it: what is denied is remembered by proxies, and asked seldom.
--
-- Where a state begins follows from its place alone, and all states were charged by the same calls, so last, before and
-- during stand in all headers alike. Nothing is kept of one window when it comes to the next but what
-- is to be written and answered.
--
-- Cost: the calls of Redis of one window, whatever the number of windows; a record of logs that is too long for one
-- piece is patched: three, and two for each log.

-- It is the end of a function of the clock, which returns one of a question. This returns the index up to which it needs
-- a record, and the question's short way: a function of a key, its record or '' and the number of requests that
-- returns the reply of batch.lua, or nothing, before anything is written.

local concat = table.concat

return function(text, kind, cost, strict)
  local n = #text / 10 - 1
  -- Of each window: the bytes of a header up to window, and up to limit; the ms between a log's entries, see slide.lua.
  local names, starts, limits, windows, grids = {}, {}, {}, {}, {}
  for i = 1, n do
    local window, limit = unpack('>I5I5', text, i * 10 + 1)
    limits[i], windows[i], grids[i] = limit, window, limit > 65536 and math.ceil(window / 65536) or 1
    starts[i] = sub(text, 8, 10) .. sub(text, i * 10 + 1, i * 10 + 10)
    names[i] = sub(starts[i], 1, 8)
  end
  local head = 4 + n * (kind == SLIDE and 50 or 29) -- bytes
  local piece = piece_of(head)
  local reach = text_of(piece - 1)
  local shape = pack('>BI3', 1, head)
  -- What is stored, and answered; made once: a table that grows is made anew several times.
  local record, out = { shape }, {}

  -- stamp returns the ms that all windows of a record go by, its fields last, before and during as they are and as
  -- they will be, and the reply's beginning.
  local function stamp(s, requests)
    local now, last, before, during = clock, 0, 0, 0
    if s ~= '' then
      last, before, during = unpack('>I6I2I2', s, 18)
      if last > now then now = last end
    end
    before, during = count_call(now, last, before, during)
    out[1] = pack('>BI4I3', 0, requests, calls_at(clock, now, before, during))
    return now, last, sub(s, 18, 27), pack('>I6I4', now, before * 65536 + during)
  end

  -- write stores a record that lived until ending, and now is to live until expires.
  local function write(key, s, record, ending, expires)
    if #record < #s or s == '' then
      call('SET', key, record, 'PXAT', text_of(expires))
    else
      call('SETRANGE', key, '0', record)
      if expires ~= ending then call('PEXPIREAT', key, text_of(expires)) end
    end
  end

  if kind == SLIDE then
    local places, entries = {}, {}

    -- patched admits to logs too long for one piece, if few entries have left their windows and there are slots.
    local function patched(key, s, requests)
      local units, begin, expires = requests * cost, head, 0
      local now, _, was, is = stamp(s, requests)
      for i = 1, n do
        local at, limit, window, grid = i * 50 - 45, limits[i], windows[i], grids[i]
        if sub(s, at, at + 7) ~= names[i] or sub(s, at + 13, at + 22) ~= was then return end
        local first, count, cap, base, total, newest = unpack('>I3I3I3I6I6I6', s, at + 23)
        local slot, oldest, gone = begin + first * ENTRY, now - window, 0
        local block = call('GETRANGE', key, slot, slot + (cap - first < 16 and cap - first or 16) * ENTRY - 1)
        while gone * ENTRY < #block and unpack('>I6', block, gone * ENTRY + 1) < oldest do gone = gone + 1 end
        if gone * ENTRY == #block then return end
        if gone > 0 then base = unpack('>I6', block, gone * ENTRY - 5) end
        local used, ms = (total - base) % WRAP, now + -now % grid
        if used + units > limit then return end
        first, count, total = (first + gone) % cap, count - gone, (total + units) % WRAP
        if newest >= ms then ms = newest elseif count < cap then count = count + 1 else return end
        if cap > 256 and count * 4 < cap then return end -- time to rebuild it shorter
        if ms + window > expires then expires = ms + window end
        places[i], entries[i] = begin + (first + count - 1) % cap * ENTRY, pack('>I6I6', ms, total)
        record[i + 1] = pack('>c13c10I3I6I6I6I6', starts[i], is, first, count * 16777216 + cap, base, total, ms)
        out[i + 1] = pack('>I6I12I6', used, ms, 0)
        begin = begin + cap * ENTRY
      end
      call('SETRANGE', key, '0', concat(record, '', 1, n + 1))
      for i = 1, n do call('SETRANGE', key, places[i], entries[i]) end
      call('PEXPIREAT', key, text_of(expires))
      return concat(out, '', 1, n + 1)
    end

    return reach, function(key, s, requests)
      local units = requests * cost
      if units == 0 or s ~= '' and sub(s, 1, 4) ~= shape then return end
      if #s == piece then return patched(key, s, requests) end
      local now, _, was, is = stamp(s, requests)
      local begin, length, ending, expires = head + 1, 0, 0, 0
      for i = 1, n do
        local window = windows[i]
        local used, ms, live, count, base, total, newest = 0, now + -now % grids[i], '', 0, 0, 0, 0
        if s ~= '' then
          local at, oldest, gone = i * 50 - 45, now - window, 0
          if sub(s, at, at + 7) ~= names[i] or sub(s, at + 13, at + 22) ~= was then return end
          count, base, total, newest = unpack('>xxxI3xxxI6I6I6', s, at + 23)
          local stop = begin + count * ENTRY
          if newest < oldest then
            gone, base = count, total
          elseif unpack('>I6', s, begin) < oldest then
            local low, high = 1, count - 1 -- the newest entry counts
            while low < high do
              local mid = floor((low + high) / 2)
              if unpack('>I6', s, begin + mid * ENTRY) < oldest then low = mid + 1 else high = mid end
            end
            gone = low
            base = unpack('>I6', s, begin + gone * ENTRY - 6)
          end
          used = (total - base) % WRAP
          if newest + window > ending then ending = newest + window end
          count = count - gone
          if count > 0 and newest >= ms then -- one more in the newest entry
            ms, live, count = newest, sub(s, begin + gone * ENTRY, stop - ENTRY - 1), count - 1
          elseif count > 0 then
            live = sub(s, begin + gone * ENTRY, stop - 1)
          end
          begin = stop
        end
        if used + units > limits[i] then return end
        count, total, length = count + 1, (total + units) % WRAP, length + count + 1
        if ms + window > expires then expires = ms + window end
        record[i + 1] = pack('>c13c10I9I6I6I6', starts[i], is, count * 16777217, base, total, ms)
        record[n + i + 1] = pack('>c0I6I6', live, ms, total)
        out[i + 1] = pack('>I6I12I6', used, ms, 0)
      end
      if s ~= '' and begin - 1 ~= #s or head + length * ENTRY >= piece then return end -- slots without entries; too long
      write(key, s, concat(record, '', 1, 2 * n + 1), ending, expires)
      return concat(out, '', 1, n + 1)
    end
  elseif kind == COUNTER then -- each window the classic pair
    return reach, function(key, s, requests)
      local units = requests * cost
      if units == 0 or s ~= '' and sub(s, 1, 4) ~= shape then return end
      local now, last, was, is = stamp(s, requests)
      local begin, ending, expires = head - 9, 0, 0
      for i = 1, n do
        local window = windows[i]
        local e = now % window
        local k, current, previous = (now - e) / window, 0, 0
        if s ~= '' then
          local at, before = i * 29 - 24, (last - last % window) / window
          if sub(s, at, at + 7) ~= names[i] or sub(s, at + 13, at + 22) ~= was then return end
          if before >= k - 1 then
            current, previous = unpack('>I5I5', s, begin + i * 10)
            if before % 2 ~= 0 then current, previous = previous, current end
            if before ~= k then current, previous = 0, current end
          end
          if (before + 2) * window > ending then ending = (before + 2) * window end
        end
        local used = current
        if previous > 0 then used = current + (strict and previous or floor(previous * (window - e) / window)) end
        if used + units > limits[i] then return end
        out[i + 1] = pack('>I6I12I6', used, now, current)
        current = current + units
        if (k + 2) * window > expires then expires = (k + 2) * window end
        record[i + 1] = pack('>c13c10I6', starts[i], is, current + previous)
        if k % 2 ~= 0 then current, previous = previous, current end
        record[n + i + 1] = pack('>I5I5', current, previous)
      end
      write(key, s, concat(record, '', 1, 2 * n + 1), ending - 1, expires - 1)
      return concat(out, '', 1, n + 1)
    end
  else -- FIXED
    return reach, function(key, s, requests)
      local units = requests * cost
      if units == 0 or s ~= '' and sub(s, 1, 4) ~= shape then return end
      local now, last, was, is = stamp(s, requests)
      local ending, expires = 0, 0
      for i = 1, n do
        local window, used = windows[i], 0
        local next = now - now % window + window
        if s ~= '' then
          local at, ends = i * 29 - 24, last - last % window + window
          if sub(s, at, at + 7) ~= names[i] or sub(s, at + 13, at + 22) ~= was then return end
          if ends == next then used = unpack('>I6', s, at + 23) end
          if ends > ending then ending = ends end
        end
        if used + units > limits[i] then return end
        if next > expires then expires = next end
        record[i + 1] = pack('>c13c10I6', starts[i], is, used + units)
        out[i + 1] = pack('>I6I12I6', used, now, 0)
      end
      write(key, s, concat(record, '', 1, n + 1), ending - 1, expires - 1)
      return concat(out, '', 1, n + 1)
    end
  end
end
