"""Events in Kafka: which topic and key they have, and how brokers are reached. Importing this imports no Kafka client;
the extra `kafka` is needed to connect."""
