package share

// MaxPerClient is how many connections a client may have.
const MaxPerClient = maxPerClient
