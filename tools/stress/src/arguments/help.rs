//! What `help` prints.

pub const USAGE: &str = "\
usage: helenus-stress COMMAND [WORDS] [GROUPS]

  write read                   rows of keyspace1.standard1: a key and five columns of bytes
  counter_write counter_read   the same of keyspace1.counter1, whose columns are counters
  mixed                        several of these
  user                         what profiles describe
  help, version                this text; the version

words after the command (what it does not have is an error):
  n=N                          operations; where one visits several partitions, partitions (K, M and B count)
  duration=N[s|m|h|d]          run for so long instead
  err<E [n>MIN] [n<MAX]        run until the standard error of the rates' mean is below E of it, for MIN to MAX
                               intervals [default without n= and duration=: err<0.02 n>30 n<200]
  cl=LEVEL                     consistency level [default: LOCAL_ONE]; a serial one goes with LOCAL_ONE
  no-warmup                    count from the first operation [default: a quarter of n= first, at most 50,000]
  truncate=never|once|always   empty the tables after the warm-up, or before each of several runs [default: never]
  ratio(write=W,read=R,…)      of mixed: how often each command comes [default: 1 to 1]
  clustering=DIST              of mixed and user: as many of a kind after each other [default: gaussian(1..10)]
  keysize=N                    bytes of a key [default: 10]
  add=DIST                     what is added to counters [default: fixed(1)]
  profile=FILE[,FILE…]         of user: the tables
  ops(insert=N,QUERY=N,…)      of user: how often each comes; KEYSPACE.TABLE.QUERY of other profiles than the first

groups:
  -rate threads=N              requests in flight, over all connections [default: write with n= 200, else auto]
        [throttle=N/s]         at most so many operations a second
        [fixed=N/s]            exactly so many, latency counted from when each was due
  -rate [auto] [threads>=N] [threads<=N]
                               runs with more threads each; with auto until that gains nothing [default: 4 to 1000]
  -node HOST[:PORT][,…]        only these are connected to [default: localhost]
        [file=FILE]            or those of a file, one a line
  -port native=N               [default: 9042]
  -pop seq=FROM..TO [no-wrap]  partitions one after the other [default for what only writes: 1..n]
  -pop dist=DIST               or drawn [default for the others: gaussian(1..n)]
       [contents=sorted|shuffled]  the order of the rows that are written to a partition
  -col [n=fixed(N)|names=A,B,…] [size=DIST] [slice] [timestamp=MICROSECONDS]
                               columns of the tool's own tables [default: n=fixed(5) size=fixed(34)]
  -insert [partitions=DIST] [batchtype=logged|unlogged|counter] [select-ratio=DIST/N] [row-population-ratio=DIST/N]
                               in place of what a profile says
  -schema [keyspace=NAME] [replication(strategy=S,factor=N,DC=N,…)] [compaction(strategy=S,OPTION=VALUE,…)]
          [compression=CLASS]  of the tool's own tables
  -mode [native] [cql3] [prepared|unprepared] [protocolVersion=4|5] [compression=none|lz4|snappy]
        [connectionsPerHost=N] [maxPending=N] [user=NAME password=PASSWORD]
                               [default: 8 connections, or one for each shard where those are more]
  -errors [ignore] [retries=N] [skip-read-validation]
                               [default: 9 retries, and the run ends at the first failure]
  -log [file=FILE] [interval=Ns|Nms] [level=minimal|normal|verbose] [no-summary] [no-settings]
                               also write all that is printed there
  -graph file=FILE [title=T] [revision=R] [op=NAME]
                               draw the run into this HTML page, beside those that are in it
  -verify                      compare what `read` reads, byte for byte [default: one row is there]
  -cores LIST                  send from these cores, a thread each [default: the second half of the allowed ones]

DIST: fixed(N) uniform(A..B) gaussian(A..B[,DEVIATIONS]) gaussian(A..B,MEAN,DEVIATION) exp(A..B) extreme(A..B,SHAPE)
      qextreme(A..B,SHAPE,QUANTAS) seq(A..B); ~ before the name mirrors it; gauss, normal, norm, extr, weibull and
      qextr are other names.";
