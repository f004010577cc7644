package commands

import (
	"bytes"
	"strings"
)

// quoted is how much of an unknown command an error repeats, in bytes, as in
// Redis: of the name, and of all arguments together.
const quoted = 128

// unknownCommand is Redis's error for a command that it does not know. Clients
// match on its text, so nothing stands before it or within it. Users who send an
// ordinary Redis command to the embedded engine must learn why it is unknown; for
// those the reason follows the text, where no client looks.
func unknownCommand(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.Write(cString(args[0], quoted))
	b.WriteString("', with args beginning with: ")
	size := 0
	for _, a := range args[1:] {
		if size >= quoted {
			break
		}
		a = cString(a, quoted-size)
		b.WriteByte('\'')
		b.Write(a)
		b.WriteString("' ")
		size += len(a) + len("'' ")
	}
	if isOrdinary(args[0]) {
		b.WriteString("(ordinary Redis commands need a backend, see the directives backend and passthrough)")
	}
	return b.String()
}

// unknownSubcommand is Redis's error for a subcommand that it does not know.
func unknownSubcommand(r *row, name []byte) string {
	return "ERR unknown subcommand '" + string(cString(name, quoted)) + "'. Try " + strings.ToUpper(r.name) + " HELP."
}

// cString cuts b at its first NUL and at n bytes: Redis formats arguments as C
// strings here.
func cString(b []byte, n int) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b[:min(len(b), n)]
}

// ordinary names the commands of Redis 7.0 that read and write keys. The list
// serves only the error above.
var ordinary = func() map[string]bool {
	names := make(map[string]bool)
	for name := range strings.FieldsSeq(`
		append bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop
		brpoplpush bzmpop bzpopmax bzpopmin copy decr decrby del dump eval eval_ro
		evalsha evalsha_ro exists expire expireat expiretime fcall fcall_ro geoadd
		geodist geohash geopos georadius georadius_ro georadiusbymember
		georadiusbymember_ro geosearch geosearchstore get getbit getdel getex getrange
		getset hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset
		hrandfield hscan hset hsetnx hstrlen hvals incr incrby incrbyfloat keys lcs
		lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim
		mget migrate move mset msetnx object persist pexpire pexpireat pexpiretime
		pfadd pfcount pfdebug pfmerge psetex pttl randomkey rename renamenx restore
		rpop rpoplpush rpush rpushx sadd scan scard script sdiff sdiffstore set setbit
		setex setnx setrange sinter sintercard sinterstore sismember smembers
		smismember smove sort sort_ro spop srandmember srem sscan strlen substr sunion
		sunionstore touch ttl type unlink xack xadd xautoclaim xclaim xdel xgroup xinfo
		xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zadd zcard zcount
		zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore
		zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank
		zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex
		zrevrangebyscore zrevrank zscan zscore zunion zunionstore dbsize`) {
		names[name] = true
	}
	return names
}()

func isOrdinary(name []byte) bool {
	var buf [32]byte
	low, ok := lower(buf[:0], name)
	return ok && ordinary[string(low)]
}
