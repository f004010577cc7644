package lua

// Body is the text of the function library, which returns the library's table.
var Body = join(order())
