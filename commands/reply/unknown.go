package reply

import (
	"strings"

	"github.com/rlproxy/rlproxy/commands/word"
)

// UnknownCommand returns Redis's error for an unknown command. Clients match on the beginning of its text. For a
// command of Redis that could be forwarded, the reason why it is not follows that text.
func UnknownCommand(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.Write(word.Quote(args[0]))
	b.WriteString("', with args beginning with: ")
	size := 0
	for _, a := range args[1:] {
		if size >= word.Quoted {
			break
		}
		a = word.Cut(a, word.Quoted-size)
		b.WriteByte('\'')
		b.Write(a)
		b.WriteString("' ")
		size += len(a) + len("'' ")
	}
	if isForwardable(args[0]) {
		b.WriteString("(commands of Redis are forwarded only with backend and passthrough yes)")
	}
	return b.String()
}

// UnknownSubcommand returns Redis's error for an unknown subcommand.
func UnknownSubcommand(command string, name []byte) string {
	return "ERR unknown subcommand '" + string(word.Quote(name)) + "'. Try " + strings.ToUpper(command) + " HELP."
}

// WrongSubcommand returns Redis's error for a subcommand with a wrong number of arguments.
func WrongSubcommand(command string, name []byte) string {
	return "ERR unknown subcommand or wrong number of arguments for '" + string(word.Quote(name)) + "'. Try " +
		strings.ToUpper(command) + " HELP."
}

// forwardable holds the commands of Redis 7.0 that read and write keys. It is used only by UnknownCommand.
var forwardable = func() map[string]bool {
	names := make(map[string]bool)
	for name := range strings.FieldsSeq(`
		append bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop
		brpoplpush bzmpop bzpopmax bzpopmin copy decr decrby del dump eval eval_ro
		evalsha evalsha_ro exists expire expireat expiretime fcall fcall_ro function geoadd
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
		zrevrangebyscore zrevrank zscan zscore zunion zunionstore dbsize memory`) {
		names[name] = true
	}
	return names
}()

func isForwardable(name []byte) bool {
	var buf [32]byte
	low, ok := word.Lower(buf[:0], name)
	return ok && forwardable[string(low)]
}
