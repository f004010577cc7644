-- messages.lua: the table of the messages between rlproxy and the functions of the library. engine/wire has the other
-- half, and a test compares the two.
--
-- KEYS are stored keys, and ARGV[1] is the clock in ms; empty: the node's own. The rest of ARGV, and the reply:
--
--   rl_decide    ENTRY* and specs -> CLOCK and replies to entries; see decide.lua
--   rl_all       specs -> ALL and replies to entries
--   rl_each      two arguments for each request -> EACH and a reply for each
--   rl_admit     a spec, and ID with HOLD -> FIRST or AGAIN, and a reply
--   rl_settle    SETTLE -> SETTLED
--   rl_inspect   nothing -> states
--   rl_lend      lend -> lent
--   rl_take      loan -> taken
--   rl_recall    order -> reported
--   rl_forget    forgot -> forgotten
--   rl_advance   ask -> answer
--   rl_account   ask -> answer
--
-- A packed message is integers one after the other, in the formats at the end of this file. The others are maps with
-- names, packed by cmsgpack. Their fields have these types:
--
--   flag    a boolean                       count   an integer up to 2^32
--   text    a string of bytes               number  up to 2^53
--   state   the name of a state             clock   a time in ms, up to 2^43
--   kind    of a state                      ms      a period, up to 2^37
--   shard   the number of a shard, from 1   units   up to 2^46
--
-- A type is also the name of another map. With * it is a list, and with ? the field may be absent.
--
-- lend: asks a home to decide, and to lend to the shard that refused
--   spec         text       see spec.lua. Without cost, or without windows, nothing is decided but only read
--   requests     count      how many equal requests there are
--   shards       count      how many shards the caller wants
--   id           text?      of the only request, as ID and HOLD
--   refusal      refusal?   of the shard that was asked first
--   reports      report*    of the shards that were recalled
--   unreachable  shard*     the shards that did not answer a recall
--
-- lent: a home's reply, which is one of the two
--   known        text?      the id is known: the reply of rl_admit
--   home         home?      otherwise
--
-- home: a home's decision and what it knows
--   clock        clock
--   rate         count      calls per second that charge, at the home
--   shards       count      of the key; 0: nothing is lent
--   held         flag       whether the key has held units
--   lapsed       count      holds that had lapsed and that this call removed
--   decision     decision
--   tallies      tally*     by window of the spec
--   lent         loaned*    to which shards
--
-- decision: what becomes of the requests
--   granted      count      requests, from the first on. The others are denied if there are no recalls
--   recalls      recall*    those that are needed before the others are decided
--   loan         loan?      to the shard that refused
--
-- tally: the use of a window
--   used         units      by all shards, as the home sees it, before the requests
--   own          units      by the home, with what was just granted
--   first        ms         until the first of those no longer counts; 0 if all requests were granted
--   empty        clock      when nothing of own counts any more; any ms if that is 0
--   lent         units      by all other shards
--
-- loaned: what a shard has on loan
--   shard        shard
--   incarnation  clock
--   out          units*     that the shard may have in use, by window of the spec
--   empty        clock*     when they no longer count if the shard charges them all now; 0 if there are none
--
-- loan: is given to a shard
--   shard        shard
--   seq          number
--   clock        clock      of the refusal that it answers
--   incarnation  clock      of the refusal that it answers
--   pairs        pair*      the limits that it is for
--   strict       flag       the limits that it is for
--   held         units*     that the shard may have in use, by pair
--   headroom     units*     that the home has left, by pair
--
-- pair: a limit of a state
--   state        state
--   limit        units
--
-- taken: a shard's reply to a loan
--   taken        flag       false: the loan was outdated
--
-- refused: the end of a shard's entry in the reply of rl_decide if it did not admit all requests
--   refusal      refusal
--   first        ms*        by window, until the first of its units no longer counts; empty unless its lease has ended
--
-- refusal: what a home must know of that
--   shard        shard?     a shard does not know its number
--   clock        clock
--   incarnation  clock
--   seq          number     of the newest loan or recall that it knows
--   ended        flag       it has no live lease
--   used         use*       by window; empty unless its lease has ended
--
-- use: units in use of a state
--   state        state
--   units        units
--
-- order: tells a shard to give back what it has not used and to report, or one of the other two
--   forget       flag       forget everything, for a reset
--   report       flag       only report
--   recall       recall
--
-- recall: is named by a home, and sent to the shard
--   shard        shard
--   seq          number
--   end_lease    flag       it serves other limits than those of the requests
--   strict       flag       units are counted in full
--   states       state*     to report on
--
-- reported: a shard's reply to an order. Its lists are by state, as in the report
--   report       report
--   clock        clock
--   lease_left   ms         until its lease ends
--   first        ms*        until the first of the units in use no longer counts
--   empty        clock*     when none of them counts any more; any ms without any
--   held         units*     that the shard may have in use
--   limit        units*     as last charged
--   rate         count*     calls per second that charge
--
-- report: what a home must know of that
--   shard        shard      those of the recall
--   seq          number     those of the recall
--   strict       flag       those of the recall
--   incarnation  clock      0 without a lease record
--   stale        flag       the shard knows a newer loan, and has given nothing back
--   ended        flag       it has no live lease
--   used         use*       by state
--
-- forgot: ends a reset at the home
--   shards       forgetful*
--
-- forgetful: a shard that forgot
--   shard        shard      of the recall with which it forgot
--   seq          number     of the recall with which it forgot
--
-- forgotten: a home's reply to that
--   forgotten    flag       false: shards remain that did not forget, or were lent to since
--
-- ask: a proxy accounts for an advance, or asks for one, or for more
--   proxy        text
--   spec         text       of a request that is to be admitted from the advance
--   account      account?
--   want         units      for its next spans; 0: none
--   span         ms         for which it would like to have them
--
-- account: what was drawn from an advance
--   number       number     of the advance
--   draws        draw*      that are in no earlier account, in the order of time
--   keep         units      that the proxy goes on drawing from until the answer
--
-- draw: units that a proxy has admitted
--   at           clock      no earlier than when
--   units        units
--
-- answer: a home's answer to that
--   terms        terms
--   used         units*     that count, by window of the spec
--   empty        clock*     when no charged or held unit counts any more, by window
--
-- terms: what a proxy may draw
--   number       number     of the advance from now on; 0: there is none
--   units        units      all that may be drawn, which includes what was kept
--   deadline     clock      at which the advance lapses
--   clock        clock
--   recalled     flag       the home wants it back
--   calm         flag       there was a recall lately, so nothing is advanced
--   late         flag       the account came when the home waited no more for it
--   lapsed       count      holds that had lapsed and that this call removed
--
-- states: the states of a key, for RL.INSPECT
--   split        flag       whether the key's other shards have to be asked as well
--   states       inspected*
--
-- inspected: a state
--   kind         kind
--   window       number     in ms; for a rate, in which its limit drains; for leases of RL.ACQUIRE, 0
--   parameter    number     for a rate, 0
--   used         number
--   limit        number
--   rate         count
--   ttl          number     of the key, in ms
--   held         number
--   holds        count
--   lapsed       count      holds, since the window last held nothing
--   advanced     advanced*  to proxies
--
-- advanced: units of a state that a proxy may admit
--   proxy        text
--   units        units
--   left         ms         until the deadline

local lib = ...

lib.messages = {
  -- An entry: the index of its spec in ARGV 2, and how many equal requests it has 4.
  ENTRY = '>I2I4', ENTRY_BYTES = 6,

  -- A spec: cost 6, flags 1 (1: strict, 2: at a shard), kind 1, parameter 5; then per window its length 5 and limit 5,
  -- or for CL.THROTTLE the ns between units 8, and the limit 8. The length of a calendar window is larger by CALENDAR,
  -- and its PARAMETER 5 follows the limit, see fixed.lua.
  SPEC = '>I6BBI5', FLAGS_AT = 7, WINDOWS_AT = 14, WINDOW = '>I5I5', WINDOW_BYTES = 10, INTERVAL = '>I8I8',
  CALENDAR = 2 ^ 39, PARAMETER = '>I5',
  -- Begins the error about a spec whose calendar windows are not those of the node's time. The ms of that follow.
  MISDATED = 'CALENDAR ',

  CLOCK = '>I6', -- of the node, in ms

  -- The reply to an entry: a status 1; for FAILED the text of an error, which has charged nothing; for AT_HOME the
  -- fields of HOME; if units are held or advanced, LAPSED, the number of lapsed holds that this call removed 3;
  -- GRANTED, that is how many requests were granted 4 and the calls per second that charge 3; per window USAGE; and
  -- for AT_SHARD the text of the map `refused`, empty if all requests were granted. Before a text there is its
  -- length 2.
  -- After RECALLED, what is not granted, or has no cost, is to be asked again: advances were recalled.
  --
  -- USAGE is the units used before the entry 6; the ms at which there is room for one more request, 0 if there is now
  -- 6; and the first ms at which nothing counts any more, what was granted included 6.
  DECIDED = 0, FAILED = 1, AT_HOME = 2, AT_SHARD = 3, HELD = 4, RECALLED = 5,
  STATUS = '>B', TEXT = '>I2', LAPSED = '>I3', GRANTED = '>I4I3', USAGE = '>I6I6I6',
  -- Shards of a split key 2; flags 1 (1: the shards must be read before the rest is decided, 2: units are held).
  HOME = '>I2B',
  -- The same, as the fast path packs it about one window, with fewer and so longer integers. ADMITTED and DENIED begin
  -- with one that is a status of 0 and GRANTED; in ADMITTED, the last one is a room of 0 and the ms after it. BESIDE,
  -- of held units, HOMES and SHARDS have GRANTED in one, SHARDS an empty text. Of several windows: SEVERAL, and per
  -- window USED.
  ADMITTED = '>I8I6I12', DENIED = '>I8I6I6I6', SEVERAL = '>I8', USED = '>I6I12',
  BESIDE = '>BI3I7I6I6I6', HOMES = '>BI2BI7I6I6I6', SHARDS = '>BI7I6I6I6I2',

  -- The clock 6, and 1 if all requests were granted 1. If not, nothing was charged, and granted is 1 for each that
  -- there was room for.
  ALL = '>I6B',

  -- A byte 0, the clock 6, and the reply to an entry. If the id is known, a byte 1, the length of a spec 1, the spec
  -- that the reply is about, and the first reply.
  FIRST = '>BI6', AGAIN = '>B', LENGTH = '>B',

  -- The length of a reply 2; of an error it is larger by ERROR, and its text follows.
  EACH = '>I2', ERROR = 32768,

  -- The id of a request: its kind 1 byte, and its digest: the bucket of the hash 2, and the rest 14; see ids.lua. HOLD
  -- follows it: for how many ms units are held at most 5; 1 if units that lapse are forgotten, 0 if they are charged 1,
  -- and more by AWAITED if the client waits, so that the next release of the key's leases is published.
  ID = '>Bc2c14', HOLD = '>I5B', HOLD_AT = 18, AWAITED = 2,

  -- The id, as ID, and the final cost 6. The reply: 0 if there was nothing to settle, 1 if this call settled it, 2 if
  -- an earlier call with the same cost did 1; units charged 6, given back 6, and charged beyond those held 6; the
  -- number of lapsed holds that this call removed 3.
  SETTLE = '>Bc2c14I6', SETTLED = '>BI6I6I6I3',

  -- The digest of the id of a lease, as in ID, and for how many ms the lease lasts from now on 5. The reply: 1 if the
  -- lease was renewed, 0 if it had ended 1; the number of lapsed holds that this call removed 3.
  RENEW = '>c2c14I5', RENEWED = '>BI3',
}
