"""What the words mean: assets, scripts and their headers, asset partitions, lineage, runs and events. Pure values, valid by construction.

Nothing here reads a clock, a file or the network, and nothing here knows how a value came or where it goes. Every other floor imports
this one; it imports only `errors`.

    annotations bodies rules project inactive   from the text of a file to a script, or to why it is none
    assets partitions lineage graph             what scripts read and make, and how it hangs together
    spans runs events decisions                 what passes between the floors
"""
