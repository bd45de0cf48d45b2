-- Records a change that was made in several shards. ARGV: now; actor; action; target; rows.

record_audit(ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]))
return 1
