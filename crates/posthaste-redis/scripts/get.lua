-- One row with its whole body. ARGV: now; id.

return (shown({ ARGV[2] }, true))
